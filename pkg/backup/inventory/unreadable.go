package inventory

import (
	"context"
	"strings"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// unreadable is what can be said of a lineage whose lineage.json can't be read. It is empty if nothing is there.
func unreadable(ctx context.Context, store objstore.Store, name, why string) (Lineage, error) {
	l := Lineage{}
	for info, err := range store.List(ctx, layout.LineagePrefix(name), "") {
		if err != nil {
			return Lineage{}, err
		}
		l.Lineage.Lineage, l.Unreadable = name, Shorten(why)
		if strings.HasPrefix(info.Key, layout.WALPrefix(name)) {
			l.WALBytes += info.Size
		} else {
			l.StoredBytes += info.Size
		}
		if info.Modified.After(l.LastWritten) {
			l.LastWritten = info.Modified
		}
	}
	return l, nil
}

// Known says that lineage.json was read: who writes the lineage, and what is in it.
func (l *Lineage) Known() bool { return l.Writer.UID != "" }

// maxWhy bounds what a status takes of an error, which may quote a bucket.
const maxWhy = 300

// Shorten makes one line of an error, of a length that a status takes.
func Shorten(text string) string {
	text = strings.ReplaceAll(text, "\n", ": ")
	if len(text) <= maxWhy {
		return text
	}
	return strings.ToValidUTF8(text[:maxWhy], "") + "…"
}
