// Package backup writes, restores, verifies and removes base backups of PostgreSQL in an object
// store. docs/backup-format.md is its contract. It knows neither Kubernetes nor SQL: who calls it
// brings the functions that bracket a backup.
package backup
