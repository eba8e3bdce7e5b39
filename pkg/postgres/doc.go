// Package postgres knows the facts of PostgreSQL that Howdah builds on: positions in the
// write-ahead log and the names of its files, page checksums, control data, configuration
// files, log lines, and the records of a WAL segment. It is pure: it talks to no server and
// knows nothing of Kubernetes. Names are PostgreSQL's own.
//
// Everything that reads a file of a server reads the layout of a little-endian build of
// PostgreSQL, majors 14 to 18.
package postgres
