package postgres

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The majors whose files this package reads.
const (
	OldestMajor = 14
	NewestMajor = 18
)

// Version is a release of PostgreSQL. Minor is zero for a pre-release.
type Version struct {
	Major int
	Minor int
}

// "17.5", "PostgreSQL 17.5 (Debian 17.5-1)", "postgres (PostgreSQL) 18beta1", "15\n" of PG_VERSION.
var versionText = regexp.MustCompile(`^(?:[a-z_]+ \(PostgreSQL\) |PostgreSQL )?([1-9][0-9]{1,2})(?:\.([0-9]{1,4})|devel|(?:alpha|beta|rc)[0-9]+)?(?:\s|$)`)

// ParseVersion reads what version(), server_version, --version and PG_VERSION say.
func ParseVersion(s string) (Version, error) {
	m := versionText.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return Version{}, fmt.Errorf("%w PostgreSQL version %q: write it like 17 or 17.5", ErrSyntax, s)
	}
	major, _ := strconv.Atoi(m[1]) // the pattern admits only digits
	minor, _ := strconv.Atoi(m[2]) // or nothing
	return Version{Major: major, Minor: minor}, nil
}

// VersionFromNum reads server_version_num: 170005 is 17.5.
func VersionFromNum(num int) Version {
	return Version{Major: num / 10000, Minor: num % 10000}
}

// Num is server_version_num.
func (v Version) Num() int { return v.Major*10000 + v.Minor }

// String is "17.5".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Compare orders releases.
func (v Version) Compare(other Version) int { return cmp.Compare(v.Num(), other.Num()) }

// Known says whether this package reads the files of the version's major.
func (v Version) Known() bool { return v.Major >= OldestMajor && v.Major <= NewestMajor }
