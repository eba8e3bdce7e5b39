// Package lookup finds lineages and backups in a repository.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"howdah.dev/howdah/pkg/backup"
	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

var (
	// ErrNotThere is what the repository doesn't have. The text is a sentence.
	ErrNotThere = errors.New("not in the repository")
	// ErrAmbiguous is a name that means more than one thing. The text says how to tell them apart.
	ErrAmbiguous = errors.New("ambiguous")
)

// Filter narrows a repository down; empty fields allow everything.
type Filter struct {
	Lineage, Namespace, Cluster string
}

// String names what passes, for a person.
func (f Filter) String() string {
	var parts []string
	for _, part := range []struct{ what, name string }{{"lineage", f.Lineage}, {"namespace", f.Namespace}, {"cluster", f.Cluster}} {
		if part.name != "" {
			parts = append(parts, part.what+" "+part.name)
		}
	}
	return strings.Join(parts, ", ")
}

// ErrUnreadable is a lineage whose lineage.json is damaged or missing. It is an *UnreadableError.
var ErrUnreadable = errors.New("the lineage can't be read")

// UnreadableError says which one, and why.
type UnreadableError struct {
	Lineage string
	Err     error
}

func (e *UnreadableError) Error() string {
	if errors.Is(e.Err, objstore.ErrNotFound) {
		return layout.LineageKey(e.Lineage) + " is missing"
	}
	return e.Err.Error()
}

// Is says that it is ErrUnreadable.
func (e *UnreadableError) Is(target error) bool { return target == ErrUnreadable }

// Lineages lists what passes the filter, oldest first. None is ErrNotThere. One that can't be read and may pass is an *UnreadableError.
func Lineages(ctx context.Context, store objstore.Store, filter Filter) ([]layout.Lineage, error) {
	found, unreadable, err := All(ctx, store, filter)
	if err == nil && len(unreadable) > 0 {
		err = unreadable[0]
	}
	return found, err
}

// All is Lineages, which names all that can't be read beside those that can.
func All(ctx context.Context, store objstore.Store, filter Filter) (found []layout.Lineage, unreadable []*UnreadableError, err error) {
	names := []string{filter.Lineage}
	if filter.Lineage == "" {
		if names, err = layout.Lineages(ctx, store); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range names {
		lineage, err := layout.ReadLineage(ctx, store, name)
		missing := errors.Is(err, objstore.ErrNotFound)
		if missing {
			if there, err := isThere(ctx, store, name); err != nil {
				return nil, nil, err
			} else if !there {
				continue
			}
		}
		if missing || layout.Damaged(err) {
			if filter.Lineage != "" || !ofAnother(ctx, store, name, filter) {
				unreadable = append(unreadable, &UnreadableError{Lineage: name, Err: err})
			}
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if w := lineage.Writer; (filter.Cluster == "" || filter.Cluster == w.Name) && (filter.Namespace == "" || filter.Namespace == w.Namespace) {
			found = append(found, lineage)
		}
	}
	if len(found)+len(unreadable) == 0 {
		return nil, nil, nothing(ctx, store, filter)
	}
	slices.SortStableFunc(found, func(a, b layout.Lineage) int { return a.Created.Compare(b.Created) })
	return found, unreadable, nil
}

// isThere says that a lineage has objects.
func isThere(ctx context.Context, store objstore.Store, name string) (bool, error) {
	for _, err := range store.List(ctx, layout.LineagePrefix(name), "") {
		return err == nil, err
	}
	return false, nil
}

// errFound ends a list early.
var errFound = errors.New("found")

// ofAnother says that the backups of a lineage, whose lineage.json can't be read, are of another cluster than the filter lets pass. It is
// false if that is not known.
func ofAnother(ctx context.Context, store objstore.Store, name string, filter Filter) (another bool) {
	_ = backup.Each(ctx, store, name, func(e backup.Entry) error {
		if e.Header == nil || e.Header.Cluster.Name == "" {
			return nil // another backup may say it
		}
		cluster := e.Header.Cluster
		another = filter.Cluster != "" && cluster.Name != filter.Cluster || filter.Namespace != "" && cluster.Namespace != filter.Namespace
		return errFound
	})
	return another
}

// nothing says why there is no lineage.
func nothing(ctx context.Context, store objstore.Store, filter Filter) error {
	if _, err := layout.ReadMarker(ctx, store); errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("%w: this is not a repository of Howdah, because %s is missing; check --bucket and --prefix", ErrNotThere, layout.MarkerKey)
	} else if err != nil {
		return err
	}
	if filter == (Filter{}) {
		return fmt.Errorf("%w: the repository is empty", ErrNotThere)
	}
	return fmt.Errorf("%w: the repository has nothing for %s", ErrNotThere, filter)
}

// Only is the one lineage that passes the filter.
func Only(ctx context.Context, store objstore.Store, filter Filter) (layout.Lineage, error) {
	found, err := Lineages(ctx, store, filter)
	if err != nil {
		return layout.Lineage{}, err
	}
	if len(found) > 1 {
		var names []string
		for _, lineage := range found {
			names = append(names, lineage.Lineage)
		}
		return layout.Lineage{}, fmt.Errorf("%w: there is more than one lineage; use --lineage with one of %s", ErrAmbiguous, strings.Join(names, ", "))
	}
	return found[0], nil
}

// Name is one backup in a repository.
type Name struct{ Lineage, ID string }

// String is how Find takes it.
func (n Name) String() string { return n.Lineage + "/" + n.ID }

// Find finds a backup by its id, or by LINEAGE/ID.
func Find(ctx context.Context, store objstore.Store, filter Filter, id string) (Name, error) {
	if lineage, rest, full := strings.Cut(id, "/"); full {
		filter.Lineage, id = lineage, rest
	}
	if err := layout.CheckName("backup", id); err != nil {
		return Name{}, fmt.Errorf("%w: %w", ErrNotThere, err)
	}
	lineages, err := Lineages(ctx, store, filter)
	if errors.Is(err, ErrUnreadable) && filter.Lineage != "" {
		lineages, err = []layout.Lineage{{Lineage: filter.Lineage}}, nil // which of them is meant is clear
	}
	if err != nil {
		return Name{}, err
	}
	var found []string
	var name Name
	for _, lineage := range lineages {
		_, err := store.Stat(ctx, layout.ManifestKey(lineage.Lineage, id))
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return Name{}, err
		}
		name = Name{lineage.Lineage, id}
		found = append(found, name.String())
	}
	switch len(found) {
	case 0:
		return Name{}, fmt.Errorf("%w: backup %s does not exist; `howdah-backup list` shows those that do", ErrNotThere, id)
	case 1:
		return name, nil
	}
	return Name{}, fmt.Errorf("%w: more than one backup is named %s; use one of %s", ErrAmbiguous, id, strings.Join(found, ", "))
}

// Backups names the backups of some lineages, those of one after the other, in the order of their ids. It reads none of them.
func Backups(ctx context.Context, store objstore.Store, lineages ...string) ([]Name, error) {
	var all []Name
	for _, lineage := range lineages {
		ids, err := backup.IDs(ctx, store, lineage)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			all = append(all, Name{Lineage: lineage, ID: id})
		}
	}
	return all, nil
}
