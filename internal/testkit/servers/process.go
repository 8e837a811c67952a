package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errPortTaken reports that a server ended because it could not listen.
var errPortTaken = errors.New("port is taken")

// process runs a server that listens on a loopback port. Its methods are safe for
// concurrent use. The methods that start or stop the server run one at a time.
type process struct {
	command func() *exec.Cmd                // returns the command that starts the server
	ready   func(ctx context.Context) error // returns nil once the server answers
	stop    os.Signal                       // signal for a graceful stop
	run     string                          // folder of the server's files
	port    int

	mu   sync.Mutex
	life *life // nil before the first start
}

// life is one run of a process.
type life struct {
	cmd    *exec.Cmd
	paused bool
	ended  chan struct{} // closed after the process has ended and Wait has returned
}

func (l *life) over() bool {
	if l == nil {
		return true
	}
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// Addr returns the TCP address, "127.0.0.1:port".
func (p *process) Addr() string { return loopback(p.port) }

// file returns the path of a file in the server's folder.
func (p *process) file(name string) string { return filepath.Join(p.run, name) }

// log returns the path of the file with the server's output.
func (p *process) log() string { return p.file("log") }

// Close kills the server and removes its files. A second Close does nothing.
func (p *process) Close() error { return errors.Join(p.Kill(), os.RemoveAll(p.run)) }

// launch chooses a free port, calls the function configure to write the configuration
// for this port, and starts the server. If another process has taken the port
// meanwhile, launch tries another port.
func (p *process) launch(ctx context.Context, configure func() error) error {
	var err error
	for range portTries {
		if p.port, err = freePort(); err != nil {
			return err
		}
		if err = configure(); err != nil {
			return err
		}
		if err = p.start(ctx); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// Pid returns the id of the server's process, or 0 while the server is down.
func (p *process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.over() {
		return 0
	}
	return p.life.cmd.Process.Pid
}

// isAnswering reports whether the server runs and is not paused.
func (p *process) isAnswering() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.life.over() && !p.life.paused
}

// Restart stops the server gracefully if it runs, and starts it with the same files and
// port. It returns when the server answers.
func (p *process) Restart() error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.start(context.Background())
}

// start starts the server and waits until it answers. If it does not answer, start
// kills it.
func (p *process) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.Create(p.log())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	endWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p.life = &life{cmd: cmd, ended: make(chan struct{})}
	go func(l *life) {
		_ = l.cmd.Wait() // the reason is in the server's log
		close(l.ended)
	}(p.life)

	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.await(ctx); err != nil {
		return errors.Join(err, p.kill())
	}
	return nil
}

func (p *process) await(ctx context.Context) error {
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.life.ended:
			said := p.lastOutput()
			if strings.Contains(strings.ToLower(said), "address already in use") {
				return fmt.Errorf("%s: %w", p.life.cmd.Path, errPortTaken)
			}
			return fmt.Errorf("%s ended while it started; its output:\n%s", p.life.cmd.Path, said)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %w", p.life.cmd.Path, ctx.Err(), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Log returns the server's output since its last start.
func (p *process) Log() (string, error) {
	text, err := os.ReadFile(p.log())
	return string(text), err
}

// lastOutput returns the last lines of the server's output since its last start.
func (p *process) lastOutput() string {
	log, err := os.ReadFile(p.log())
	if err != nil {
		return err.Error()
	}
	return string(tail(log))
}

// tail returns the last lines of a program's output.
func tail(said []byte) []byte {
	const lines = 20
	all := bytes.Split(bytes.TrimSpace(said), []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}

// Stop stops the server gracefully, and returns when it has ended. It does nothing if the
// server is down.
func (p *process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.over() {
		return nil
	}
	if err := p.resume(); err != nil {
		return err
	}
	if err := p.life.cmd.Process.Signal(p.stop); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.life.ended:
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("%s did not stop within %v", p.life.cmd.Path, stopTimeout), p.kill())
	}
}

// Kill kills the server and its child processes with SIGKILL, and returns when they
// have ended. Data that they wrote to files remain. Data in their memory are lost. Kill
// does nothing if the server is down.
func (p *process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kill()
}

func (p *process) kill() error {
	if p.life.over() {
		return nil
	}
	// A stopped process starts no new children. It can still finish a fork before it stops,
	// so the children are listed after it has stopped. A stopped process also does not wait
	// for dead children, so their ids are not reused before the signals are sent.
	pid := p.life.cmd.Process.Pid
	if err := signal(syscall.SIGSTOP, pid); err != nil {
		return err
	}
	awaitStop(pid)
	spawned := children(pid)
	if err := signal(syscall.SIGKILL, append(spawned, pid)...); err != nil {
		return err
	}
	<-p.life.ended
	for _, pid := range spawned {
		for isRunning(pid) {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// Pause suspends the server and its child processes (SIGSTOP). Connections stay open, but
// the server does not answer until Resume.
func (p *process) Pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.over() {
		return errors.New("pause a server that is down")
	}
	p.life.paused = true
	pid := p.life.cmd.Process.Pid
	if err := signal(syscall.SIGSTOP, pid); err != nil {
		return err
	}
	awaitStop(pid)
	return signal(syscall.SIGSTOP, children(pid)...) // a stopped process starts no new children
}

// Resume continues a paused server.
func (p *process) Resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.over() {
		return errors.New("resume a server that is down")
	}
	return p.resume()
}

func (p *process) resume() error {
	p.life.paused = false
	pid := p.life.cmd.Process.Pid
	return signal(syscall.SIGCONT, append(children(pid), pid)...)
}

// signal sends a signal to processes, in the given order. It ignores processes that have
// ended.
func signal(sig syscall.Signal, pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("send %v to process %d: %w", sig, pid, err)
		}
	}
	return nil
}
