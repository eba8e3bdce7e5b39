// Package disconnect releases a running database from a PostgresCluster that is being deleted, and lets a PostgresCluster of the same name
// take it over. What is released is recorded in a ConfigMap first; then nothing has an owner any more; only then the finalizer goes. The
// way back is the same in reverse: the status is recorded, then everything has an owner again, then the ConfigMap goes.
package disconnect
