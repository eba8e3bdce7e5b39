package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/howdah/cmd/howdah-backup/internal/display"
	"howdah.dev/howdah/cmd/howdah-backup/internal/lookup"
	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/postgres"
)

// listed is one backup in a list, as JSON.
type listed struct {
	Lineage      string       `json:"lineage"`
	ID           string       `json:"id"`
	Namespace    string       `json:"namespace,omitempty"`
	Cluster      string       `json:"cluster,omitempty"`
	Type         backup.Type  `json:"type,omitempty"`
	Parent       string       `json:"parent,omitempty"`
	PGVersion    string       `json:"pgVersion,omitempty"`
	Started      *time.Time   `json:"started,omitempty"`
	Finished     *time.Time   `json:"finished,omitempty"`
	Timeline     uint32       `json:"timeline,omitempty"`
	StartLSN     postgres.LSN `json:"startLSN,omitzero"`
	StopLSN      postgres.LSN `json:"stopLSN,omitzero"`
	LogicalBytes int64        `json:"logicalBytes"`
	StoredBytes  int64        `json:"storedBytes"`
	Committed    time.Time    `json:"committed"`
	Error        string       `json:"error,omitempty"` // why it can't be read
}

func (a *app) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the backups of all lineages, or of some",
		Args:  cobra.NoArgs,
		RunE:  a.run(func(ctx context.Context, store objstore.Store, _ []string) error { return a.list(ctx, store) }),
	}
}

func (a *app) list(ctx context.Context, store objstore.Store) error {
	lineages, unreadable, err := lookup.All(ctx, store, a.filter)
	if err != nil {
		return err
	}
	for _, damaged := range unreadable { // its backups say whose they are
		lineages = append(lineages, layout.Lineage{Lineage: damaged.Lineage})
	}
	all := []listed{}
	for _, lineage := range lineages {
		err := backup.Each(ctx, store, lineage.Lineage, func(entry backup.Entry) error {
			item := describe(entry) // the header itself may be large, and is let go
			if lineage.Writer.UID != "" {
				item.Namespace, item.Cluster = lineage.Writer.Namespace, lineage.Writer.Name
			}
			all = append(all, item)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := a.writeList(all); err != nil {
		return err
	}
	return a.complain(unreadable)
}

// complain names the lineages that can't be read. It ends with errDamage if there are any.
func (a *app) complain(unreadable []*lookup.UnreadableError) error {
	for _, damaged := range unreadable {
		fmt.Fprintf(a.errOut, "howdah-backup: lineage %s can't be read: %s\n", damaged.Lineage, sentence(damaged))
	}
	if len(unreadable) > 0 {
		return errDamage
	}
	return nil
}

func (a *app) writeList(all []listed) error {
	if a.output == formatJSON {
		return a.writeJSON(all)
	}
	if len(all) == 0 {
		fmt.Fprintln(a.out, "There are no backups.")
		return nil
	}
	t := newTable(a.out, "CLUSTER", "BACKUP", "TYPE", "POSTGRESQL", "FINISHED", "SIZE", "STORED", "LINEAGE")
	for _, item := range all {
		t.row(item.columns()...)
	}
	return t.Flush()
}

func describe(entry backup.Entry) listed {
	item := listed{Lineage: entry.Lineage, ID: entry.ID, Committed: entry.Committed.UTC()}
	if entry.Err != nil {
		item.Error = sentence(entry.Err)
		return item
	}
	h := entry.Header
	item.Type, item.Parent, item.PGVersion, item.Timeline = h.Type, h.Parent, h.PGVersion, h.Timeline
	item.Started, item.Finished, item.StartLSN, item.StopLSN = &h.StartTime, &h.StopTime, h.StartLSN, h.StopLSN
	item.Namespace, item.Cluster = h.Cluster.Namespace, h.Cluster.Name
	item.LogicalBytes, item.StoredBytes = h.Totals.LogicalBytes, h.Totals.StoredBytes
	return item
}

func (l listed) columns() []string {
	cluster := strings.TrimPrefix(l.Namespace+"/"+l.Cluster, "/")
	if l.Error != "" {
		return []string{cluster, l.ID, "damaged", "-", display.Second(l.Committed), "-", "-", l.Lineage}
	}
	return []string{
		cluster, l.ID, string(l.Type), l.PGVersion, display.Second(*l.Finished), display.Bytes(l.LogicalBytes), display.Bytes(l.StoredBytes), l.Lineage,
	}
}

// table writes columns under each other.
type table struct{ *tabwriter.Writer }

func newTable(out io.Writer, header ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)}
	if len(header) > 0 {
		t.row(header...)
	}
	return t
}

func (t table) row(columns ...string) {
	for i := range columns {
		columns[i] = printable(columns[i])
	}
	fmt.Fprintln(t, strings.Join(columns, "\t"))
}

func (a *app) writeJSON(value any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
