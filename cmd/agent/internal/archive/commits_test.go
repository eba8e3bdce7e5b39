package archive

import (
	"bytes"
	"io"
	"testing"
)

func TestBehindASwitchOfSegmentsOnlyZeroesAreArchived(t *testing.T) {
	page, pages := 10, 5
	whole := bytes.Repeat([]byte("x"), page*pages)
	for switched := range page*pages + 1 {
		known := (switched + page - 1) / page // pages that were read when the switch is found
		out := bytes.Buffer{}
		into := &clearing{to: &out}
		for n := range known {
			if _, err := into.Write(whole[n*page:][:page]); err != nil {
				t.Fatal(err)
			}
		}
		into.from = int64(switched)
		if _, err := io.Copy(into, bytes.NewReader(whole[known*page:])); err != nil {
			t.Fatal(err)
		}
		if err := into.flush(); err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(whole)
		if switched > 0 { // at 0 there was no switch
			clear(want[switched:])
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("a switch at %d: %q", switched, out.Bytes())
		}
	}
}
