package initialize

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"howdah.dev/howdah/cmd/agent/internal/job"
	"howdah.dev/howdah/pkg/agentapi"
	"howdah.dev/howdah/pkg/postgres"
)

// ReasonBadLocale is the reason of a Job whose image has not the locale that the data directory is to have.
const ReasonBadLocale = "UnknownLocale"

// byCodePoint is the locale in which text is ordered by code points. Every provider but ICU has it, and so has every image.
const byCodePoint = "C.UTF-8"

// Arguments are those of initdb. By default, the order of text is by code points, so that a new C library never breaks an index; from
// 17 on PostgreSQL brings that order itself.
func Arguments(major int, pgdata string, wanted agentapi.Initdb) []string {
	args := []string{
		"--pgdata=" + pgdata, "--username=" + postgres.RoleSuperuser, "--encoding=" + cmp.Or(wanted.Encoding, "UTF8"),
		"--auth-local=peer", "--auth-host=scram-sha-256", "--data-checksums",
	}
	if wanted.WALSegmentMiB > 0 {
		args = append(args, "--wal-segsize="+strconv.FormatInt(wanted.WALSegmentMiB, 10))
	}
	provider := wanted.LocaleProvider
	if provider == "" && major >= 17 {
		provider = "builtin"
	}
	locale := cmp.Or(wanted.Locale, byCodePoint)
	switch provider {
	case "builtin":
		return append(args, "--locale="+byCodePoint, "--locale-provider=builtin", "--builtin-locale="+locale)
	case "icu":
		args = append(args, "--locale="+byCodePoint, "--locale-provider=icu", "--icu-locale="+locale)
		if wanted.ICURules != "" {
			args = append(args, "--icu-rules="+wanted.ICURules)
		}
		return args
	}
	return append(args, "--locale="+locale)
}

// InWAL adds to arguments of initdb that pg_wal is to be a link to a folder; empty: it is in the data directory.
func InWAL(dir string, args []string) []string {
	if dir == "" {
		return args
	}
	return append(args, "--waldir="+dir)
}

// localeErrors are what initdb says of a locale, an encoding or rules that it can't have.
var localeErrors = []string{
	"invalid locale", "encoding mismatch", "could not open collator", "could not convert locale name", "ICU is not supported",
	"is not supported by ICU", "ICU locale", "collation rules", "is not allowed as a server-side encoding",
}

// explain says what to do about a locale that is not in the image: another attempt would end the same.
func explain(wanted agentapi.Initdb, err error) error {
	for _, known := range localeErrors {
		if wanted != (agentapi.Initdb{}) && strings.Contains(err.Error(), known) {
			return job.Final(ReasonBadLocale, fmt.Errorf("the image can't have what spec.bootstrap.initdb requests (encoding %q, localeProvider %q, locale %q): "+
				"set spec.image to an image that has the locale, or create the PostgresCluster anew with another one: %w",
				wanted.Encoding, wanted.LocaleProvider, wanted.Locale, err))
		}
	}
	return err
}
