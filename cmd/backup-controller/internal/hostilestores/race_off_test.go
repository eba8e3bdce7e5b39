//go:build !race

package hostilestores

const raceDetector = false
