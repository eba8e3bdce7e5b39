package folder_test

import (
	"testing"

	"howdah.dev/howdah/pkg/objstore/folder"
	"howdah.dev/howdah/pkg/objstore/storetest"
)

func TestAFolderIsAStore(t *testing.T) {
	store, err := folder.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, store)
}

func TestAFolderThatIsNotThereIsRefused(t *testing.T) {
	if _, err := folder.Open(t.TempDir() + "/none"); err == nil {
		t.Error("opened")
	}
}
