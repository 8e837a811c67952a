package servers

import (
	"os/exec"
	"path/filepath"
	"strconv"
)

// SQS starts a local emulator of Amazon SQS, which is closed at the end of the test. dir has its program main.mjs, and the
// packages of Node.js that this needs. The queues are in memory. A client can have any credentials, and the region is
// us-east-1.
func SQS(t TB, dir string) *KafkaServer {
	t.Helper()
	return Kafka(t, func(port int, _ string) *exec.Cmd {
		return exec.Command("node", filepath.Join(dir, "main.mjs"), strconv.Itoa(port))
	})
}
