package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/bloomfrontier/crawler/bench/agenda"
	"github.com/bloomfrontier/crawler/bench/fpr"
	"github.com/bloomfrontier/crawler/bench/memory"
	"github.com/bloomfrontier/crawler/bench/report"
)

// fprSteps are the false-positive rates of all sets that can be had.
func fprSteps(o *options, h *host) (*report.Section, []*agenda.Step) {
	config := fpr.Config{Keys: uint64(o.keys), Seed: o.seed, Subjects: []fpr.Subject{fpr.Memory(), fpr.Local(h.dir)}}
	if h.redis != nil {
		config.Subjects = append(config.Subjects, fpr.Shared(h.redis), fpr.Redis(h.client))
	}
	if h.postgres != "" {
		config.Subjects = append(config.Subjects, fpr.Postgres(h.postgres))
	}
	if o.fpr != 0 {
		config.Rates = []float64{float64(o.fpr)}
	}
	section, steps := fpr.Steps(config)
	if h.redis == nil {
		section.Miss("redisbits and redisstore", h.noRedis)
	}
	if h.postgres == "" {
		section.Miss("pgstore", h.noPostgres)
	}
	return section, steps
}

// filterRates are the rates at which filters are weighed.
var filterRates = []float64{0.01, 1e-4, 1e-6}

// memorySteps are the weighings of all stores that can be had.
func memorySteps(o *options, h *host) (*report.Section, []*agenda.Step) {
	rates := filterRates
	if o.fpr != 0 {
		rates = []float64{float64(o.fpr)}
	}
	config := memory.Config{Keys: uint64(o.keys), Subjects: memory.InProcess(holder, rates)}
	if h.redis != nil {
		config.Subjects = append(config.Subjects, memory.InRedis(h.openAnother, rates, h.hasBloom)...)
	}
	config.Subjects = append(config.Subjects, memory.OnDisk(h.dir)...)
	if h.postgres != "" {
		config.Subjects = append(config.Subjects, memory.InPostgres(h.postgres)...)
	}
	section, steps := memory.Steps(config)
	switch {
	case h.redis == nil:
		section.Miss("all that is kept in Redis", h.noRedis)
	case !h.hasBloom:
		section.Miss("BF.RESERVE", "this Redis has no Bloom module")
	}
	if h.postgres == "" {
		section.Miss("all that is kept in Postgres", h.noPostgres)
	}
	return section, steps
}

// holder makes the command of a process that holds what is weighed: this program
// as `crawler bench hold`.
func holder(ctx context.Context, args ...string) *exec.Cmd {
	self, err := os.Executable()
	cmd := exec.CommandContext(ctx, self, append([]string{"bench", "hold"}, args...)...)
	cmd.Err = errors.Join(cmd.Err, err)
	return cmd
}
