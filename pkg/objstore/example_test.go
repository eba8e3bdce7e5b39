package objstore_test

import (
	"context"
	"errors"
	"fmt"

	"howdah.dev/howdah/pkg/objstore"
	"howdah.dev/howdah/pkg/objstore/mem"
	"howdah.dev/howdah/pkg/objstore/readonly"
)

// A store holds whole objects: they are put at once, read as a whole or in ranges, and listed in the order of their keys.
func Example() {
	ctx, store := context.Background(), mem.New()
	for key, body := range map[string]string{"wal/2": "second", "wal/1": "first", "howdah.json": "{}"} {
		if err := store.Put(ctx, key, []byte(body), objstore.PutOptions{}); err != nil {
			fmt.Println(err)
		}
	}
	for object, err := range store.List(ctx, "wal/", "") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(object.Key, object.Size)
	}
	part := make([]byte, 3)
	if _, err := store.ReadAt(ctx, "wal/2", part, 3); err == nil {
		fmt.Printf("%s\n", part)
	}
	_, err := store.Get(ctx, "wal/3", 1<<10)
	fmt.Println(errors.Is(err, objstore.ErrNotFound))
	// Output:
	// wal/1 5
	// wal/2 6
	// ond
	// true
}

// Of several writers of one key, the server lets exactly one succeed. The others compare what is there with what they wanted.
func ExamplePutOptions() {
	ctx, store := context.Background(), mem.New()
	for _, writer := range []string{"shop", "copy of shop"} {
		err := store.Put(ctx, "lineage.json", []byte(writer), objstore.PutOptions{IfAbsent: true})
		if errors.Is(err, objstore.ErrExists) {
			owner, _ := store.Get(ctx, "lineage.json", 1<<10)
			fmt.Printf("%s: the lineage belongs to %s\n", writer, owner)
		}
	}
	// Output:
	// copy of shop: the lineage belongs to shop
}

// Explain makes a sentence for a condition from any error of a store.
func ExampleExplain() {
	err := readonly.New(mem.New()).Put(context.Background(), "a", nil, objstore.PutOptions{})
	fmt.Println(objstore.Explain(err))
	// Output:
	// The repository is read-only: spec.readOnly of the BackupRepository is true.
}

// Probe tries what Howdah needs of a store, with objects that have the token in their names. This one lets two writers replace each
// other's objects.
func ExampleProbe() {
	findings, _ := objstore.Probe(context.Background(), careless{mem.New()}, "token")
	for _, finding := range findings {
		fmt.Println(finding.Ability, "-", finding.Message)
	}
	// Output:
	// ConditionalWrite - The server does not honour If-None-Match: it let a second writer replace an object. Two clusters could mix up one archive there; use a server or a version that supports conditional writes.
}
