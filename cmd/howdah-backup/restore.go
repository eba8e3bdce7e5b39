package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/howdah-backup/internal/autoconf"
	"howdah.dev/howdah/cmd/howdah-backup/internal/connection"
	"howdah.dev/howdah/cmd/howdah-backup/internal/datadir"
	"howdah.dev/howdah/cmd/howdah-backup/internal/display"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/readnotice"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/pitr"
	"howdah.dev/howdah/pkg/postgres"
)

// restore is one run of the command.
type restore struct {
	*app
	dir                   string
	toTime, toLSN, toName string
	toTimeline            uint32
	latest, immediate     bool
	action                string
	tablespaces           []string
	workers               int
	megabytes             int64
	silent                bool // nothing is written to the bucket

	replays        bool // there is a target
	target         pitr.Target
	tablespaceDirs map[string]string // by OID
}

// restored is what was done, as JSON.
type restored struct {
	Lineage     string               `json:"lineage"`
	ID          string               `json:"id"`
	PGVersion   string               `json:"pgVersion"`
	TargetDir   string               `json:"targetDir"`
	Files       int                  `json:"files"`
	Bytes       int64                `json:"bytes"`
	Seconds     float64              `json:"seconds"`
	Replays     bool                 `json:"replays"`               // recovery settings were written
	StopAt      string               `json:"stopAt,omitempty"`      // where replay stops
	Timeline    uint32               `json:"timeline"`              // that it follows
	Tablespaces []datadir.Tablespace `json:"tablespaces,omitempty"` // where they are now
	Dropped     []string             `json:"dropped,omitempty"`     // settings that were left out
	Damage      *backup.Damage       `json:"damage,omitempty"`      // pages that were damaged when they were backed up
}

func (a *app) restoreCommand() *cobra.Command {
	r := &restore{app: a}
	command := &cobra.Command{
		Use:   "restore [BACKUP] --target-dir DIR",
		Short: "Restore a data directory that PostgreSQL can start on",
		Long: "Restore a data directory from a backup. With a target, such as --to-time, PostgreSQL replays WAL up to it when it is started, and " +
			"fetches that WAL from the bucket with this program. Without a target it stops where the backup ended. Without BACKUP, the " +
			"newest backup that leads to the target is used.",
		Args: cobra.MaximumNArgs(1),
		RunE: a.run(func(ctx context.Context, store objstore.Store, args []string) error {
			return r.run(ctx, store, strings.Join(args, ""))
		}),
	}
	flags := command.Flags()
	flags.StringVar(&r.dir, "target-dir", "", "the data directory; it must be empty or not exist")
	flags.StringVar(&r.toTime, "to-time", "", "replay what was committed until this time, such as 2026-03-04T05:06:07Z")
	flags.StringVar(&r.toLSN, "to-lsn", "", "replay everything before this LSN, as pg_current_wal_lsn() returns it")
	flags.StringVar(&r.toName, "to-name", "", "replay up to the restore point with this name")
	flags.Uint32Var(&r.toTimeline, "to-timeline", 0, "follow this timeline instead of the newest one; without another target, replay everything on it")
	flags.BoolVar(&r.latest, "latest", false, "replay everything in the archive")
	flags.BoolVar(&r.immediate, "immediate", false, "replay only as far as the backup needs")
	flags.StringVar(&r.action, "target-action", "promote", "what PostgreSQL does at the target: promote, pause or shutdown")
	flags.BoolVar(&r.silent, "write-nothing", false, "write no notice to the bucket that the backup is being read, which prevents its deletion meanwhile")
	flags.StringArrayVar(&r.tablespaces, "tablespace", nil, "OID=DIR: where to put a tablespace; if not set, <target-dir>.tablespaces/OID")
	bounds(command, &r.workers, &r.megabytes)
	command.MarkFlagsMutuallyExclusive("to-time", "to-lsn", "to-name", "latest", "immediate")
	if err := command.MarkFlagRequired("target-dir"); err != nil {
		panic(err) // the flag is above
	}
	return command
}

func (r *restore) run(ctx context.Context, store objstore.Store, id string) error {
	if err := r.parse(id); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	started := r.now()
	found, err := r.find(ctx, store, id)
	if err != nil {
		return err
	}
	place, err := r.place.Resolve(r.getenv)
	if err != nil {
		return err
	}
	stopReading, err := r.sayReading(ctx, place, found.header)
	if err != nil {
		return err
	}
	defer stopReading()
	manifest, err := backup.ReadManifest(ctx, store, found.header.Lineage, found.header.ID)
	if err != nil {
		return err
	}
	tablespaces := datadir.Tablespaces(manifest)
	if err := r.placeTablespaces(tablespaces); err != nil {
		return err
	}
	if manifest.Damage != nil {
		fmt.Fprintf(r.errOut, "%d pages of the backup failed their checksum when it was taken, and the restored database has them, too, unless replayed WAL replaces them. Use show to list them.\n", manifest.Damage.Count)
	}
	meter := r.meter()
	job := datadir.Job{
		Trusted: place.Encrypted(),
		Store:   store, Manifest: manifest, Dir: r.dir, Tablespaces: r.tablespaceDirs, Workers: r.workers, Memory: r.megabytes << 20,
		Report: meter.Report,
	}
	if r.replays {
		if job.Recovery, err = r.settings(found, place); err != nil {
			return err
		}
	}
	err = job.Run(ctx)
	meter.Done()
	if err != nil {
		os.Remove(r.besides()) // if it is empty
		return err
	}
	return r.say(restored{
		Lineage: manifest.Lineage, ID: manifest.ID, PGVersion: manifest.PGVersion, TargetDir: r.dir, Files: manifest.Totals.Files,
		Bytes: manifest.Totals.LogicalBytes, Seconds: r.now().Sub(started).Seconds(), Replays: r.replays, StopAt: r.stopAt(found),
		Timeline: found.timeline, Tablespaces: tablespaces, Dropped: job.Dropped, Damage: manifest.Damage,
	})
}

// sayReading says in the bucket that a backup is read, so that nobody deletes it meanwhile. Whoever may not write there restores all the same.
func (r *restore) sayReading(ctx context.Context, place connection.Place, header *backup.Header) (stop func(), err error) {
	if r.silent || !place.Shared() {
		return func() {}, nil
	}
	store, err := place.Open(ctx, false)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	return readnotice.Announce(ctx, store, header.Lineage, readnotice.Reader{
		ID: "howdah-backup-" + strings.ToLower(rand.Text()), Name: "howdah-backup restore on " + host, Backup: header.ID,
	}, func(err error) {
		fmt.Fprintf(r.errOut, "The bucket does not accept a notice that this backup is being read (%s), so others may delete it meanwhile.\n", strings.TrimSuffix(objstore.Explain(err), "."))
	}), nil
}

// parse reads the flags that are more than text.
func (r *restore) parse(id string) (err error) {
	r.replays = r.latest || r.immediate || r.toTime != "" || r.toLSN != "" || r.toName != "" || r.toTimeline != 0
	if id == "" && !r.replays {
		return errors.New("name the backup to restore, or a target: --latest, --to-time, --to-lsn or --to-name")
	}
	if !slices.Contains([]string{"promote", "pause", "shutdown"}, r.action) {
		return fmt.Errorf("--target-action %q: use promote, pause or shutdown", r.action)
	}
	r.target = pitr.Target{RestorePoint: r.toName, Immediate: r.immediate, Timeline: r.toTimeline}
	if r.toTime != "" {
		at, err := parseTime(r.toTime)
		if err != nil {
			return err
		}
		r.target.Time = &at
	}
	if r.toLSN != "" {
		if r.target.LSN, err = postgres.ParseLSN(r.toLSN); err != nil {
			return fmt.Errorf("--to-lsn: %w", err)
		}
	}
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return err
	}
	r.tablespaceDirs = map[string]string{}
	for _, mapping := range r.tablespaces {
		oid, dir, found := strings.Cut(mapping, "=")
		if !found || oid == "" || dir == "" {
			return fmt.Errorf("--tablespace %q: use OID=DIR", mapping)
		}
		if r.tablespaceDirs[oid], err = filepath.Abs(dir); err != nil {
			return err
		}
	}
	return nil
}

// parseTime reads a time that says its zone: the one of this machine need not be that of the database.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999 MST"} {
		at, err := time.Parse(layout, text)
		if err == nil && (!strings.HasSuffix(layout, "MST") || strings.HasSuffix(text, " UTC") || strings.HasSuffix(text, " GMT")) {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("--to-time %q is not a timestamp with a time zone; write it like 2026-03-04T05:06:07Z or \"2026-03-04 06:06:07+01\"", text)
}

// settings make PostgreSQL continue from the backup.
func (r *restore) settings(found path, place connection.Place) (*autoconf.Settings, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append([]string{program}, place.Args()...)
	command = append(command, "--lineage="+found.header.Lineage, "--patience=10m", "wal", walGetName)
	if found.last != "" {
		command = append(command, "--last="+found.last)
	}
	if found.least != "" {
		command = append(command, "--least="+found.least)
	}
	if found.until != 0 {
		command = append(command, "--until="+found.until.String())
	}
	return &autoconf.Settings{StopAt: found.stopAt, Timeline: found.timeline, Own: found.header.Timeline, Command: command, Action: r.action}, nil
}

// besides is where tablespaces go that are given no place.
func (r *restore) besides() string { return r.dir + ".tablespaces" }

// placeTablespaces gives every tablespace a place, and refuses ones that the backup doesn't have.
func (r *restore) placeTablespaces(there []datadir.Tablespace) error {
	var oids []string
	for _, t := range there {
		oids = append(oids, t.OID)
	}
	for _, oid := range slices.Sorted(maps.Keys(r.tablespaceDirs)) {
		if !slices.Contains(oids, oid) {
			return fmt.Errorf("%w: the backup has no tablespace %s; its tablespaces: %s", errUsage, oid, cmp.Or(strings.Join(oids, ", "), "none"))
		}
	}
	for _, oid := range oids {
		if r.tablespaceDirs[oid] == "" {
			r.tablespaceDirs[oid] = filepath.Join(r.besides(), oid)
		}
	}
	for i := range there {
		there[i].Location = r.tablespaceDirs[there[i].OID]
	}
	return nil
}

func (r *restore) stopAt(found path) string {
	if !r.replays {
		return ""
	}
	stop := found.stopAt
	stop.Timeline = 0 // that is said besides
	return stop.String()
}

func (r *restore) say(result restored) error {
	if r.output == formatJSON {
		return r.writeJSON(result)
	}
	major, _, _ := strings.Cut(result.PGVersion, ".")
	fmt.Fprintf(r.out, "Restored %s/%s into %s: %d files, %s, in %.1f s.\n",
		result.Lineage, result.ID, result.TargetDir, result.Files, display.Bytes(result.Bytes), result.Seconds)
	for _, t := range result.Tablespaces {
		fmt.Fprintf(r.out, "Tablespace %s is in %s.\n", t.OID, printable(t.Location))
	}
	if len(result.Dropped) > 0 {
		fmt.Fprintf(r.out, "These settings load code or run commands, and were left out because the repository is not encrypted: %s. Set again those that you need.\n",
			strings.Join(result.Dropped, ", "))
	}
	if os.Geteuid() == 0 {
		fmt.Fprintf(r.out, "The files belong to root, but PostgreSQL refuses to run as root. Give them to another user with chown -R.\n")
	}
	fmt.Fprintf(r.out, "Start PostgreSQL %s with: pg_ctl -D %s start\n", major, shellWord(result.TargetDir))
	if result.Replays {
		fmt.Fprintf(r.out, "PostgreSQL then replays WAL up to %s on timeline %d, and fetches it with this program, so the user that runs it needs the credentials of the bucket.\n",
			result.StopAt, result.Timeline)
	}
	return nil
}

func shellWord(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
