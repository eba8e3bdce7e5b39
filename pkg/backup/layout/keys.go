package layout

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// MarkerKey is the object that marks a repository.
const MarkerKey = "howdah.json"

// KeysPrefix is where the data keys of an encrypted or signed repository are.
const KeysPrefix = "keys/"

const (
	lineagesPrefix = "lineages/"
	manifestName   = "manifest.zst"
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,126}$`)

// CheckName refuses what can't be one part of a key: the error wraps ErrName.
func CheckName(what, name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%w: %s %q: want letters, digits, dots, dashes and underscores", ErrName, what, name)
	}
	return nil
}

// maxText is as long as a name in Kubernetes can be.
const maxText = 253

// CheckText refuses what can't be a name in Kubernetes or a version, as it is too long or not printable: whoever reads a bucket keeps it and shows
// it to people.
func CheckText(text string) error {
	if len(text) > maxText {
		return fmt.Errorf("a name has %d bytes, and the longest that there can be has %d", len(text), maxText)
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		return fmt.Errorf("the name %q has characters that can't be printed", text)
	}
	return nil
}

// lastYear of a time that every format can write, in any time zone.
const lastYear = 9998

// CheckTime refuses a time that a status in Kubernetes couldn't have.
func CheckTime(at time.Time) error {
	if year := at.UTC().Year(); year < 0 || year > lastYear {
		return fmt.Errorf("there is a time in the year %d", year)
	}
	return nil
}

// LineagePrefix is where everything of a lineage is.
func LineagePrefix(lineage string) string { return lineagesPrefix + lineage + "/" }

// LineageKey is the object that says who writes a lineage.
func LineageKey(lineage string) string { return lineagesPrefix + lineage + "/lineage.json" }

// BackupsPrefix is where the manifests of a lineage are.
func BackupsPrefix(lineage string) string { return lineagesPrefix + lineage + "/backups/" }

// ManifestKey is the object that commits a backup.
func ManifestKey(lineage, id string) string {
	return BackupsPrefix(lineage) + id + "/" + manifestName
}

// PacksPrefix is where the packs of a lineage are, a folder for each backup that wrote them.
func PacksPrefix(lineage string) string { return lineagesPrefix + lineage + "/packs/" }

// BackupPacksPrefix is where the packs that one backup wrote are.
func BackupPacksPrefix(lineage, id string) string { return PacksPrefix(lineage) + id + "/" }

// PackKey is one pack.
func PackKey(lineage, id, name string) string { return BackupPacksPrefix(lineage, id) + name }

// WALPrefix is where the WAL of a lineage is, a folder for each timeline.
func WALPrefix(lineage string) string { return lineagesPrefix + lineage + "/wal/" }

// TimelinePrefix is where the segments of one timeline are.
func TimelinePrefix(lineage string, timeline uint32) string {
	return fmt.Sprintf("%s%08X/", WALPrefix(lineage), timeline)
}

// HistoryPrefix is where timeline histories and backup histories are.
func HistoryPrefix(lineage string) string { return WALPrefix(lineage) + "history/" }

// ClaimsPrefix is where backups that are being written say which packs of others they may point at.
func ClaimsPrefix(lineage string) string { return lineagesPrefix + lineage + "/claims/" }

// ClaimKey is what one run of a backup says.
func ClaimKey(lineage, id, attempt string) string { return ClaimsPrefix(lineage) + id + "/" + attempt }

// DeletionsPrefix is where those who delete from a lineage say so. It is not below the lineage: who deletes doesn't write to it.
func DeletionsPrefix(lineage string) string { return "deletions/" + lineage + "/" }

// DeletionKey is what one of them says.
func DeletionKey(lineage, holder string) string { return DeletionsPrefix(lineage) + holder }

// AllReadersPrefix is where those who read from any lineage say so. These objects are never sealed: who reads may have keys with which nothing is
// to be written any more.
const AllReadersPrefix = "readers/"

// ReadersPrefix is where those who read from a lineage say so.
func ReadersPrefix(lineage string) string { return AllReadersPrefix + lineage + "/" }

// ReaderKey is what one of them says.
func ReaderKey(lineage, reader string) string { return ReadersPrefix(lineage) + reader }
