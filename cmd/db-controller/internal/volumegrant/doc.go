// Package volumegrant is the granting side of the volume lock: it gives the volumes of a cluster to the Restore or Upgrade that
// has requested them, one at a time, and takes them back with the data that is handed over.
package volumegrant
