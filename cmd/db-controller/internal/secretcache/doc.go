// Package secretcache remembers for a while which Secrets were read, so that a cluster at which nothing happens costs few reads
// although Secrets are not watched.
package secretcache
