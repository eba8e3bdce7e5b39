// Package condition is a condition before it is written into a status.
package condition
