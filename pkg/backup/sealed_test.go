package backup

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/sealed"
)

func sealedBy(t *testing.T, inner objstore.Store, key string) *sealed.Store {
	t.Helper()
	keys, err := sealed.ParseKeys(map[string][]byte{"k1": []byte(strings.Repeat(key, 32))}, "")
	must(t, err)
	return sealed.New(inner, sealed.Fixed(keys), sealed.Options{})
}

func TestAnEncryptedBackupRestoresToTheSameTreeAndWhatIsDamagedIsNamed(t *testing.T) {
	inner, dir := mem.New(), pgdata(t)
	mustWrite(t, sealedBy(t, inner, "01"), dir, "b1")
	store := sealedBy(t, inner, "01")
	read, err := ReadManifest(t.Context(), store, testLineage, "b1")
	must(t, err)
	target := filepath.Join(t.TempDir(), "restored")
	must(t, Restore(t.Context(), store, read, target, RestoreOptions{}))
	same(t, dir, target, append(leaveOut(t, dir), "backup_label", "base/pgsql_tmp", "pg_replslot/slot", "pg_stat_tmp")...)

	if _, err := ReadHeader(t.Context(), sealedBy(t, inner, "02"), testLineage, "b1"); !errors.Is(err, sealed.ErrWrongKey) {
		t.Errorf("with another key: %v", err)
	}
	pack := read.Packs[0]
	key := "lineages/" + testLineage + "/packs/" + pack.Backup + "/" + pack.Name
	body, err := inner.Get(t.Context(), key, 1<<30)
	must(t, err)
	body[len(body)/2] ^= 1
	must(t, inner.Put(t.Context(), key, body, objstore.PutOptions{}))
	found := &CorruptError{}
	_, err = Verify(t.Context(), sealedBy(t, inner, "01"), read, VerifyOptions{shortWAL: true})
	if !errors.As(err, &found) || found.Object != key {
		t.Errorf("verify: %v", err)
	}
	err = Restore(t.Context(), sealedBy(t, inner, "01"), read, filepath.Join(t.TempDir(), "damaged"), RestoreOptions{})
	if !errors.As(err, &found) || found.Object != key {
		t.Errorf("restore: %v", err)
	}
}
