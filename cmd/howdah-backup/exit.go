package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"howdah.dev/howdah/cmd/howdah-backup/internal/connection"
	"howdah.dev/howdah/cmd/howdah-backup/internal/datadir"
	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/cmd/howdah-backup/internal/walget"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

// The exit statuses. They are in docs/howdah-backup.md.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2   // the command line or the configuration is wrong
	exitDamaged   = 3   // something in the bucket is damaged or missing
	exitNotThere  = 4   // there is no such backup or lineage, or no way to the wanted point
	exitStore     = 5   // the bucket can't be reached or refuses
	exitSignalled = 128 // and the number of the signal

	// Of wal get, which is restore_command: 1 is the end of the archive, and more than 125 ends recovery with an error.
	exitNotArchived = 1
	exitNoWAL       = 200
)

// errUsage is a command line that isn't understood.
var errUsage = errors.New("usage")

// interrupted is the end by a signal.
type interrupted syscall.Signal

func (s interrupted) Error() string { return "interrupted: " + syscall.Signal(s).String() }

func exitStatus(err error) int {
	var signal interrupted
	var fault *objstore.Error
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &signal):
		return exitSignalled + int(signal)
	case errors.Is(err, errUsage), errors.Is(err, connection.ErrUsage), errors.Is(err, lookup.ErrAmbiguous), errors.Is(err, objstore.ErrConfig), wrongKey(err):
		return exitUsage
	case damaged(err):
		return exitDamaged
	case errors.Is(err, lookup.ErrNotThere), errors.Is(err, errUnreachable), errors.Is(err, walget.ErrNotArchived):
		return exitNotThere
	case errors.As(err, &fault):
		return exitStore
	}
	return exitFailed
}

// wrongKey says that a repository is encrypted, and not by the given key.
func wrongKey(err error) bool {
	return errors.Is(err, sealed.ErrKeyNotFound) || errors.Is(err, sealed.ErrWrongKey) || errors.Is(err, sealed.ErrPlain)
}

// damaged says that an error speaks of what lies in the bucket.
func damaged(err error) bool {
	for _, target := range []error{backup.ErrCorrupt, backup.ErrWALMissing, wal.ErrCorrupt, walget.ErrHole, lookup.ErrUnreadable, errDamage} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// restoreCommandStatus is what PostgreSQL is told: a store that can't be reached must not look like the end of the archive,
// nor may a command line that is wrong.
func restoreCommandStatus(err error) int {
	var signal interrupted
	switch {
	case errors.As(err, &signal):
		return exitSignalled + int(signal)
	case errors.Is(err, walget.ErrNotArchived):
		return exitNotArchived
	}
	return exitNoWAL
}

// sentence says for a person what is wrong.
func sentence(err error) string {
	var fault *objstore.Error
	if errors.As(err, &fault) && !damaged(err) && !wrongKey(err) && !errors.Is(err, fs.ErrExist) {
		if fault.Code == objstore.CodeNoCredentials {
			return "no credentials were found for the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials"
		}
		if text := objstore.Explain(err); text != "" {
			return text
		}
	}
	if errors.Is(err, errDamage) {
		return ""
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, sentinel := range []error{errUsage, connection.ErrUsage, lookup.ErrNotThere, lookup.ErrAmbiguous, errUnreachable, datadir.ErrNoSpace} {
		text = strings.TrimPrefix(text, sentinel.Error()+": ")
	}
	if errors.Is(err, errUsage) {
		text += fmt.Sprintf(" (%s)", "see howdah-backup --help")
	}
	return text
}
