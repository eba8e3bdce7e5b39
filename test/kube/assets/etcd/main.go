// Command etcd is the etcd server, linked from its published module: the release has its own main package outside of it.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
