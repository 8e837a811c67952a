//go:build !race

package redisbits

const raceEnabled = false // see race_on_test.go
