// Package report makes the status of a cluster say what was observed and how the pass ended. It is pure: decisions were recorded by
// steps before.
package report
