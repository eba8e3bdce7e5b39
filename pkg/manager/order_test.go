package manager

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/apis/v1alpha1"
)

func TestWhatACacheListsIsSortedByName(t *testing.T) {
	var backups []v1alpha1.Backup
	for _, name := range []string{"b", "c", "a"} {
		backups = append(backups, v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	SortByName(backups)
	for i, want := range []string{"a", "b", "c"} {
		if backups[i].Name != want {
			t.Errorf("%s comes at %d, not %s", backups[i].Name, i, want)
		}
	}
}
