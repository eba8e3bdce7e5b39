package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/howdah-backup/internal/display"
	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/wal"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// errDamage is the end of a check that has found something. What, was said.
var errDamage = errors.New("damage was found")

// verified is what a check has found, as JSON.
type verified struct {
	Lineage     string   `json:"lineage"`
	ID          string   `json:"id,omitempty"` // empty: the WAL of the lineage
	OK          bool     `json:"ok"`
	StoredBytes int64    `json:"storedBytes"` // of packs, that were read
	Objects     int      `json:"objects"`     // that were looked at
	Problems    []string `json:"problems,omitempty"`
	// MoreProblems is how many there are beside those.
	MoreProblems int `json:"moreProblems,omitempty"`
}

// verifying is one run of verify.
type verifying struct {
	*app
	store   objstore.Store
	meter   *display.Meter
	options backup.VerifyOptions
	results []verified
	// unreadable are lineages of which only the backups can be checked.
	unreadable []*lookup.UnreadableError
}

func (a *app) verifyCommand() *cobra.Command {
	v, all, withWAL, megabytes, rate := &verifying{app: a}, false, false, int64(0), int64(0)
	command := &cobra.Command{
		Use:   "verify BACKUP... | --all",
		Short: "Read backups as a restore would, and check every byte and the WAL they need",
		RunE: a.run(func(ctx context.Context, store objstore.Store, args []string) error {
			if all == (len(args) > 0) {
				return fmt.Errorf("%w: name the backups, or use --all", errUsage)
			}
			v.store, v.meter = store, a.meter()
			v.options.MemoryLimit, v.options.MaxBytesPerSecond = megabytes<<20, rate<<20
			return v.run(ctx, args, withWAL)
		}),
	}
	command.Flags().BoolVar(&all, "all", false, "verify every backup (of --cluster, --lineage)")
	command.Flags().BoolVar(&withWAL, "wal", false, "also read all archived WAL of these lineages, and look for gaps")
	command.Flags().Int64Var(&rate, "rate", 0, "limit of what is read from the bucket, in MiB/s; 0 means unlimited")
	bounds(command, &v.options.Workers, &megabytes)
	return command
}

// bounds are flags of commands that move much.
func bounds(command *cobra.Command, workers *int, megabytes *int64) {
	command.Flags().IntVar(workers, "workers", 0, "number of parallel workers; 0 is one per processor, at most 8")
	command.Flags().Int64Var(megabytes, "memory", 96, "limit of the buffers, in MiB")
}

func (v *verifying) run(ctx context.Context, args []string, withWAL bool) error {
	names, err := v.names(ctx, args)
	if err != nil {
		return err
	}
	var lineages []string
	seen := map[string]bool{}
	for _, name := range names {
		if err := v.one(ctx, verified{Lineage: name.Lineage, ID: name.ID}, v.backup); err != nil {
			return err
		}
		if !seen[name.Lineage] {
			seen[name.Lineage] = true
			lineages = append(lineages, name.Lineage)
		}
	}
	for _, lineage := range lineages {
		if !withWAL || v.isUnreadable(lineage) {
			continue
		}
		if err := v.one(ctx, verified{Lineage: lineage}, v.archive); err != nil {
			return err
		}
	}
	return errors.Join(v.conclude(), v.complain(v.unreadable))
}

func (v *verifying) isUnreadable(lineage string) bool {
	return slices.ContainsFunc(v.unreadable, func(u *lookup.UnreadableError) bool { return u.Lineage == lineage })
}

// names are the backups to check.
func (v *verifying) names(ctx context.Context, args []string) ([]lookup.Name, error) {
	var names []lookup.Name
	for _, arg := range args {
		name, err := lookup.Find(ctx, v.store, v.filter, arg)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if len(args) > 0 {
		return names, nil
	}
	found, unreadable, err := lookup.All(ctx, v.store, v.filter)
	if err != nil {
		return nil, err
	}
	var lineages []string
	for _, lineage := range found {
		lineages = append(lineages, lineage.Lineage)
	}
	v.unreadable = unreadable
	for _, damaged := range unreadable {
		lineages = append(lineages, damaged.Lineage)
	}
	names, err = lookup.Backups(ctx, v.store, lineages...)
	if err == nil && len(names) == 0 && len(lineages) > 0 { // a lifecycle rule of the bucket may have deleted them all
		err = fmt.Errorf("%w: no backup of lineage %s is left", lookup.ErrNotThere, strings.Join(lineages, ", "))
	}
	return names, err
}

// one checks one thing and says what came of it. Damage is a result; only what keeps from looking is an error.
func (v *verifying) one(ctx context.Context, result verified, check func(context.Context, *verified) error) error {
	err := check(ctx, &result)
	v.meter.Done()
	if err != nil && !damaged(err) {
		return err
	}
	result.OK = len(result.Problems) == 0
	v.results = append(v.results, result)
	if v.output == formatTable {
		v.say(result)
	}
	return nil
}

func (v *verifying) say(r verified) {
	what, seen := r.Lineage+"/"+r.ID, fmt.Sprintf("%d objects, %s of packs", r.Objects, display.Bytes(r.StoredBytes))
	if r.ID == "" {
		what, seen = "WAL of "+r.Lineage, fmt.Sprintf("%d segments", r.Objects)
	}
	if r.OK {
		fmt.Fprintf(v.out, "ok       %s: %s\n", what, seen)
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(v.out, "DAMAGED  %s: %s\n", what, problem)
	}
	if r.MoreProblems > 0 {
		fmt.Fprintf(v.out, "DAMAGED  %s: and %d more objects\n", what, r.MoreProblems)
	}
}

func (v *verifying) conclude() error {
	if v.output == formatJSON {
		if v.results == nil {
			v.results = []verified{}
		}
		if err := v.writeJSON(v.results); err != nil {
			return err
		}
	}
	for _, result := range v.results {
		if !result.OK {
			return errDamage
		}
	}
	return nil
}

// backup checks one backup: its manifest, its packs, and the WAL that it needs.
func (v *verifying) backup(ctx context.Context, result *verified) error {
	options, what := v.options, "Reading "+result.ID
	options.Progress = func(p backup.Progress) { v.meter.Report(what, p.Done, p.Total) }
	seen, err := backup.VerifyBackup(ctx, v.store, result.Lineage, result.ID, options)
	result.StoredBytes, result.Objects = seen.StoredBytes, seen.Objects
	for _, wrong := range seen.Wrong {
		result.Problems = append(result.Problems, strings.ReplaceAll(wrong.Error(), "\n", "; "))
	}
	result.MoreProblems = seen.WrongObjects - len(seen.Wrong)
	return err
}

// segments reads a row of segments. One that is missing is a problem.
func (v *verifying) segments(ctx context.Context, result *verified, first, last postgres.Segment) error {
	archive := wal.New(v.store)
	for s := first; s.Number <= last.Number; s = s.Next() {
		_, err := archive.GetTo(ctx, result.Lineage, s.Name(), io.Discard)
		result.Objects++
		switch {
		case errors.Is(err, objstore.ErrNotFound):
			result.Problems = append(result.Problems, fmt.Sprintf("WAL segment %s is missing", s))
		case errors.Is(err, wal.ErrCorrupt), errors.Is(err, wal.ErrFormat):
			result.Problems = append(result.Problems, err.Error())
		case err != nil:
			return err
		}
		v.meter.Report("Reading WAL", s.End().Sub(first.Start()), last.End().Sub(first.Start()))
	}
	return nil
}

// archive checks all WAL of a lineage.
func (v *verifying) archive(ctx context.Context, result *verified) error {
	coverage, err := wal.New(v.store).Coverage(ctx, result.Lineage)
	if err != nil {
		return err
	}
	for _, t := range coverage.Timelines {
		next := t.First
		for _, hole := range t.Holes {
			result.Problems = append(result.Problems, fmt.Sprintf("WAL segments %s to %s are missing, so recovery from an earlier backup ends before them", hole.First, hole.Last))
			before := hole.First
			before.Number--
			if err := v.segments(ctx, result, next, before); err != nil {
				return err
			}
			next = hole.Last.Next()
		}
		if err := v.segments(ctx, result, next, t.Last); err != nil {
			return err
		}
	}
	return nil
}
