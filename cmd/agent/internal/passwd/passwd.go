// Package passwd gives the user of a pod a name where the image has none for it. PostgreSQL's server needs no name, but initdb,
// pg_upgrade and psql look up their own, and end without one.
package passwd

import (
	"fmt"
	"os"
)

// Write a passwd file in which the user is called postgres. It replaces the image's, of whose users none is needed.
func Write(file string, uid, gid int) error {
	entries := "root:x:0:0:root:/root:/sbin/nologin\n" +
		fmt.Sprintf("postgres:x:%d:%d:PostgreSQL:/tmp:/bin/sh\n", uid, gid) +
		"nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"
	if err := os.WriteFile(file, []byte(entries), 0o644); err != nil {
		return fmt.Errorf("write the entry of user %d: %w", uid, err)
	}
	return nil
}
