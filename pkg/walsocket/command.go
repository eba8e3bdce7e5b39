package walsocket

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Verbs of Command.
const (
	VerbArchive      = "archive"
	VerbFetch        = "fetch"
	VerbFetchReplica = "fetch-replica" // for a server that asks its primary where this fails: recovery doesn't end then
)

const usage = "usage: wal archive SOCKET-DIR PATH | wal fetch SOCKET-DIR NAME PATH | wal fetch-replica SOCKET-DIR NAME PATH"

// Exit statuses. With one from 129 on PostgreSQL's archiver ends, where with any other it would try twice again, a second
// later each. Of restore_command 1 means that the archive has no such file, and more than 125 ends recovery.
const (
	failed      = 1
	misused     = 200
	givenUp     = 200
	notArchived = 1
	fetchFailed = 200
)

// Command is the program of archive_command and restore_command. It returns the exit status.
func Command(args []string) int {
	ctx := context.Background() // who fetches dies of a signal, which PostgreSQL doesn't take for the archive's end
	switch {
	case len(args) == 3 && args[0] == VerbArchive:
		// PostgreSQL ends archive_command by SIGQUIT when it shuts down at once: no reason to print every goroutine.
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGQUIT, syscall.SIGTERM)
		defer stop()
		return status(Archive(ctx, args[1], args[2]), failed)
	case len(args) == 4 && args[0] == VerbFetch:
		return status(Fetch(ctx, args[1], args[2], args[3]), fetchFailed)
	case len(args) == 4 && args[0] == VerbFetchReplica:
		return status(Fetch(ctx, args[1], args[2], args[3]), notArchived)
	}
	fmt.Fprintln(os.Stderr, usage)
	return misused
}

// CommandLine is archive_command or restore_command by a program that is Command. What it is about are escapes such as %p.
func CommandLine(program, verb, socketDir string, escapes ...string) string {
	words := []string{quote(program), verb, quote(socketDir)}
	for _, escape := range escapes {
		words = append(words, `"`+escape+`"`)
	}
	return strings.Join(words, " ")
}

// quote makes one word of the shell that runs the command; a percent sign would start an escape there.
func quote(word string) string {
	return "'" + strings.NewReplacer(`'`, `'\''`, `%`, `%%`).Replace(word) + "'"
}

// status of a command that says what went wrong, unless that is an answer.
func status(err error, otherwise int) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrGivenUp):
		return givenUp
	case errors.Is(err, ErrNotArchived):
		return notArchived
	}
	fmt.Fprintln(os.Stderr, "wal:", err)
	return otherwise
}
