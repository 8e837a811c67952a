//go:build !race

package membits

const raceEnabled = false // see race_on_test.go
