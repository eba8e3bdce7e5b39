// Package bucketsimulation tries the controllers of repositories and of Backups, together, in random histories of a bucket.
package bucketsimulation
