// Package firstbackup has a backup taken of a standby that was promoted: its lineage has none yet, so until then only the volumes have what is
// written, and no other standby can begin to follow it.
package firstbackup
