package backup

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"howdah.dev/howdah/pkg/postgres"
)

// emptied are folders whose content PostgreSQL makes anew, or gets from the archive: they are kept
// without it.
var emptied = map[string]bool{
	"pg_wal": true, "pg_replslot": true, "pg_dynshmem": true, "pg_notify": true, "pg_serial": true,
	"pg_snapshots": true, "pg_stat_tmp": true, "pg_subtrans": true,
}

// walFolders are folders below pg_wal, kept empty because PostgreSQL doesn't always make them.
var walFolders = []string{"pg_wal/archive_status", "pg_wal/summaries"}

// leftOut are files of PGDATA that belong to the running server or to another backup.
var leftOut = map[string]bool{
	"postmaster.pid": true, "postmaster.opts": true,
	"backup_label": true, "backup_label.old": true, "tablespace_map": true, "tablespace_map.old": true,
	"backup_manifest": true, "recovery.signal": true, "standby.signal": true,
	"postgresql.auto.conf.tmp": true, "current_logfiles.tmp": true, "lost+found": true,
}

var (
	relationName  = regexp.MustCompile(`^([0-9]+)(_fsm|_vm|_init)?(?:\.([0-9]+))?$`)
	temporaryName = regexp.MustCompile(`^t[0-9]+_[0-9]+(_fsm|_vm|_init)?(\.[0-9]+)?$`)
	databasePath  = regexp.MustCompile(`^(base/[0-9]+|global|pg_tblspc/[0-9]+/[^/]+/[0-9]+)$`)
)

// LeftOut says whether a copy of a data directory leaves out a file or folder of this name, relative to the directory.
func LeftOut(name string) bool { return excluded(name) }

// EmptyFolders are those of a data directory that a copy of it has without their content, and those below them that have to be
// there.
func EmptyFolders() (folders, below []string) {
	return slices.Sorted(maps.Keys(emptied)), slices.Clone(walFolders)
}

// excluded says whether a file or folder of PGDATA is left out altogether.
func excluded(name string) bool {
	base := path.Base(name)
	return leftOut[name] || base == "lost+found" ||
		strings.HasPrefix(base, "pgsql_tmp") || strings.HasPrefix(base, "pg_internal.init") ||
		(databasePath.MatchString(path.Dir(name)) && temporaryName.MatchString(base))
}

// relation is what a file name says about a file with pages.
type relation struct {
	node    string // the file node number
	fork    string // "", _fsm, _vm, _init
	segment uint32
}

// pagesPerSegment is how many pages a relation's file holds before the next one is begun (RELSEG_SIZE
// of every packaged build).
const pagesPerSegment = 1 << 30 / postgres.PageSize

// relationOf says which relation a path is a file of, if it is.
func relationOf(name string) (relation, bool) {
	match := relationName.FindStringSubmatch(path.Base(name))
	if match == nil || !databasePath.MatchString(path.Dir(name)) {
		return relation{}, false
	}
	segment, err := strconv.ParseUint("0"+match[3], 10, 18)
	if err != nil {
		return relation{}, false
	}
	return relation{node: match[1], fork: match[2], segment: uint32(segment)}, true
}

// unlogged finds the file nodes in a database's folder that have an init fork: only that is kept,
// because PostgreSQL makes the rest from it after a recovery.
func unlogged(names []string) map[string]bool {
	nodes := map[string]bool{}
	for _, name := range names {
		if node, ok := strings.CutSuffix(name, "_init"); ok && relationName.MatchString(name) {
			nodes[node] = true
		}
	}
	return nodes
}
