//go:build race

package backup

const raceDetector = true
