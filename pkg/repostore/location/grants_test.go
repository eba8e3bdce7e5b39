package location

import (
	"strings"
	"testing"
)

func TestGrantsAreRead(t *testing.T) {
	grants, err := ParseGrants(`[{"namespace":"shop","bucket":"backups","prefix":"shop/"}]`)
	if err != nil || len(grants) != 1 || grants[0] != (Grant{Namespace: "shop", Bucket: "backups", Prefix: "shop/"}) {
		t.Errorf("got %v, %v", grants, err)
	}
	if grants, err := ParseGrants(""); err != nil || grants != nil {
		t.Errorf("of nothing: %v, %v", grants, err)
	}
}

func TestAGrantThatSaysTooLittleIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`[{"bucket":"backups"}]`:                                  "namespace",
		`[{"namespace":"shop"}]`:                                  "bucket",
		`[{"namespace":"shop","bucket":"b","prefx":"shop"}]`:      "prefx",
		`[{"namespace":"shop","bucket":"b","prefix":"../other"}]`: "prefix",
		`{}`: "list",
	} {
		if _, err := ParseGrants(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
