// Package finalbackup has a last backup taken of a cluster that is being deleted, before anything of it is deleted.
package finalbackup
