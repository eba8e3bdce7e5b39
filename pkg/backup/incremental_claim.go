package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"howdah.dev/howdah/pkg/backup/layout"
	"howdah.dev/howdah/pkg/objstore"
)

// claim says which packs a backup that is being written may point at, so that nobody deletes them before its manifest
// is there to say so.
type claim struct {
	Backup string `json:"backup"`
	Packs  Packs  `json:"packs"`
}

// maxClaim is as much as the header of a manifest, which holds the same.
const maxClaim = maxHeader

func (w *writing) claim(ctx context.Context, packs []Pack) error {
	content, err := json.Marshal(claim{Backup: w.opts.ID, Packs: packs})
	if err != nil {
		return err
	}
	w.claimed = layout.ClaimKey(w.source.Lineage, w.opts.ID, w.attempt)
	return w.store.Put(ctx, w.claimed, content, objstore.PutOptions{})
}

// unclaim gives up this run's claim. One that can't be removed now is removed with the backup, or by SweepOrphans.
func (w *writing) unclaim(ctx context.Context) {
	if w.claimed == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	_ = w.store.Delete(ctx, w.claimed)
}

// eachClaimed visits what backups that are being written may point at, but for one. A claim that can't be read could be of anything.
func eachClaimed(ctx context.Context, store objstore.Store, lineage, without string, visit visitPack) error {
	for info, err := range store.List(ctx, layout.ClaimsPrefix(lineage), "") {
		if err != nil {
			return err
		}
		if claimant(info.Key) == without {
			continue
		}
		err = readClaim(ctx, store, info, visit)
		if errors.Is(err, objstore.ErrNotFound) {
			continue // its backup has ended meanwhile
		}
		if err != nil {
			return fmt.Errorf("no pack may be removed while a claim can't be read: %w", err)
		}
	}
	return nil
}

// claimant is the backup whose claim has this key.
func claimant(key string) string { return path.Base(path.Dir(key)) }

func readClaim(ctx context.Context, store objstore.Store, info objstore.Info, visit visitPack) error {
	if info.Size > maxClaim {
		return &CorruptError{Object: info.Key, Detail: fmt.Sprintf("it has %d bytes, which no claim has", info.Size)}
	}
	stored := &remote{ctx: ctx, store: store, key: info.Key, end: maxClaim + 1}
	rest, err := splitPacks(&allowance{from: stored, total: maxClaim}, visit)
	if stored.err != nil {
		return objstore.Missing(ctx, store, info.Key, stored.err)
	}
	if err == nil {
		err = unmarshalRest(rest, &claim{})
	}
	if err != nil {
		return &CorruptError{Object: info.Key, Detail: strings.ReplaceAll(err.Error(), "\n", ": ")}
	}
	return nil
}

// dropClaims removes claims: those of one backup, or, of all backups if id is empty, those that were put before a time.
// Their writers must have ended.
func dropClaims(ctx context.Context, store objstore.Store, lineage, id string, before time.Time) error {
	var keys []string
	for info, err := range store.List(ctx, layout.ClaimsPrefix(lineage), "") {
		if err != nil {
			return err
		}
		if claimant(info.Key) == id || id == "" && info.Modified.Before(before) {
			keys = append(keys, info.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return store.Delete(ctx, keys...)
}
