//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/postgres"
	"howdah.dev/howdah/test/testkit/place"
	"howdah.dev/howdah/test/testkit/subset"
)

func (b *bed) upgradeTo(name string, version int32, checkOnly bool) *v1alpha1.Upgrade {
	b.Helper()
	upgrade := &v1alpha1.Upgrade{ObjectMeta: b.Meta(name), Spec: v1alpha1.UpgradeSpec{
		Cluster: v1alpha1.LocalReference{Name: "shop"}, Version: version, CheckOnly: checkOnly,
	}}
	b.Must(b.Create(b.Context(), upgrade))
	return upgrade
}

func TestMajorUpgrades(t *testing.T) {
	onlyInFull(t, "the quickstart upgrades from 15 to 18")
	t.Parallel()
	for _, path := range [][2]int32{{15, 17}, {15, 18}, {17, 18}} {
		from, to := path[0], path[1]
		t.Run(fmt.Sprintf("from %d to %d", from, to), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, "minio")
			shop := b.Cluster("shop", from)
			lineage := shop.Status.Archive
			b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 50000) AS n", "CREATE INDEX ON t (md5)",
				"CREATE EXTENSION pg_stat_statements", "CREATE TABLE awkward (p regproc)",
				"CREATE COLLATION austrian (provider = icu, locale = 'de-AT')", "CREATE TABLE words (word text COLLATE austrian UNIQUE)")
			before := b.SQL("shop", sum)

			check := b.upgradeTo("check", to, true)
			b.AwaitReason(check, v1alpha1.ConditionSucceeded, v1alpha1.ReasonCheckFailed, "awkward")
			if c := place.Condition(check, v1alpha1.ConditionChecked); c == nil || c.Status != metav1.ConditionFalse {
				t.Errorf("Checked is %+v", c)
			}
			b.Must(b.Get(t.Context(), keyOf(shop), shop))
			if shop.Status.MajorVersion != from || !strings.HasPrefix(b.SQL("shop", "SHOW server_version"), fmt.Sprint(from, ".")) {
				t.Errorf("a check changed the version to %s", shop.Status.Version)
			}
			b.SQL("shop", "DROP TABLE awkward")
			if to == 18 && b.refusesTooOld(shop, to) {
				return
			}

			w := b.startWriter("shop")
			upgrade := b.upgradeTo("up", to, false)
			b.AwaitTrue(upgrade, v1alpha1.ConditionSucceeded)
			gap := w.judge()
			t.Logf("%s; no new connection for %s", place.Condition(upgrade, v1alpha1.ConditionSucceeded).Message, gap)
			b.AwaitTrue(shop, v1alpha1.ConditionReady)
			if got := b.SQL("shop", sum); got != before {
				t.Errorf("the table has %s, not %s", got, before)
			}
			if got := b.SQL("shop", "SHOW server_version"); !strings.HasPrefix(got, fmt.Sprint(to, ".")) || shop.Status.MajorVersion != to {
				t.Errorf("it runs %s, and status says %s", got, shop.Status.Version)
			}
			if got := b.SQL("shop", "SELECT count(*) > 0 FROM pg_stats WHERE tablename = 't'"); got != "t" {
				t.Error("there are no statistics")
			}
			if got := b.SQL("shop", "SELECT count(*) FROM pg_extension e JOIN pg_available_extensions a ON a.name = e.extname WHERE e.extversion <> a.default_version"); got != "0" {
				t.Errorf("%s extensions are out of date", got)
			}
			if lineage != nil && shop.Status.Archive.Lineage == lineage.Lineage {
				t.Error("the new version archives into the lineage of the old one")
			}
			if from == 15 { // the images come with another ICU each
				b.saysAndRebuilds(upgrade, "public.words_word_key")
			}
			b.firstBackupOf(upgrade)
			b.AwaitReason(shop, v1alpha1.ConditionUpToDate, v1alpha1.ReasonVersionBehind, "")
			down := b.upgradeTo("down", from, false)
			b.AwaitReason(down, v1alpha1.ConditionSucceeded, v1alpha1.ReasonDowngrade, "")
			if from == 15 {
				b.rollsBack(shop, upgrade, before)
			} else {
				b.confirms(shop, upgrade)
			}
		})
	}
}

// saysAndRebuilds: the check has named an index whose order may have changed, and the new version's server rebuilds it.
func (b *bed) saysAndRebuilds(upgrade *v1alpha1.Upgrade, index string) {
	b.Helper()
	named := func(f v1alpha1.Finding) bool {
		return f.Check == "CollationVersion" && f.Database == "app" && strings.Contains(f.Message, index)
	}
	if !slices.ContainsFunc(upgrade.Status.Findings, named) {
		b.Errorf("the findings are %+v", upgrade.Status.Findings)
	}
	shop := &v1alpha1.PostgresCluster{ObjectMeta: b.Meta("shop")}
	b.Await(shop, "the version of the collation to be recorded once its index is rebuilt", func() bool {
		return b.SQL("shop", "SELECT count(*) FROM pg_collation WHERE collname = 'austrian' AND collversion = pg_collation_actual_version(oid)") == "1"
	})
}

// rollsBack brings the old version back after clients have written to the new one: what they wrote is lost, and nothing else.
func (b *bed) rollsBack(shop *v1alpha1.PostgresCluster, upgrade *v1alpha1.Upgrade, before string) {
	b.Helper()
	b.SQL("shop", "DELETE FROM t WHERE n > 10")
	b.Must(b.Patch(b.Context(), upgrade, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"decision":"RollBack"}}`))))
	b.AwaitReason(upgrade, v1alpha1.ConditionConfirmed, v1alpha1.ReasonRolledBack, "")
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	from := upgrade.Status.Plan.FromVersion
	if got := b.SQL("shop", "SHOW server_version"); !strings.HasPrefix(got, fmt.Sprint(from, ".")) || shop.Status.MajorVersion != from {
		b.Errorf("it runs %s, and status says %s", got, shop.Status.Version)
	}
	if got := b.SQL("shop", sum); got != before {
		b.Errorf("the table has %s, not %s", got, before)
	}
}

// confirms gives the previous data up, which frees its space on every volume.
func (b *bed) confirms(shop *v1alpha1.PostgresCluster, upgrade *v1alpha1.Upgrade) {
	b.Helper()
	if upgrade.Status.PreviousBytes == 0 {
		b.Error("nothing says how much space the previous data takes")
	}
	b.Must(b.Patch(b.Context(), upgrade, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"decision":"Confirm"}}`))))
	b.AwaitTrue(upgrade, v1alpha1.ConditionConfirmed)
	b.Must(b.Get(b.Context(), keyOf(shop), shop))
	for _, instance := range shop.Status.Instances {
		b.Await(shop, "the previous data to be removed from "+instance.Name, func() bool {
			return !strings.Contains(b.generationsOn(instance.Name), upgrade.Status.Plan.FromGeneration)
		})
	}
}

// refusesTooOld says whether the release of the new image is too old for what runs, which Debian's packages of a day can
// be: the server of it is asked. Then the upgrade is to be refused before anything is touched.
func (b *bed) refusesTooOld(shop *v1alpha1.PostgresCluster, to int32) bool {
	b.Helper()
	option := b.SQL("shop", `SELECT coalesce(min(split_part(o, '=', 1)), '') FROM pg_attribute, unnest(attoptions) AS o WHERE o NOT LIKE 'n\_distinct%'`)
	if option == "" {
		return false
	}
	b.Cluster("newer", to)
	b.SQL("newer", "CREATE TABLE probe (x int)")
	_, err := b.SQLOn("newer-0", "ALTER TABLE probe ALTER x SET ("+option+" = 1)")
	if err == nil || !strings.Contains(err.Error(), "unrecognized parameter") {
		return false
	}
	running, image := b.SQL("shop", "SHOW server_version_num"), b.SQL("newer", "SHOW server_version_num")
	upgrade := b.upgradeTo("up", to, false)
	b.AwaitReason(upgrade, v1alpha1.ConditionSucceeded, v1alpha1.ReasonCheckFailed, option)
	message := place.Condition(upgrade, v1alpha1.ConditionSucceeded).Message
	for _, num := range []string{running, image} {
		n, err := strconv.Atoi(num)
		b.Must(err)
		if release := postgres.VersionFromNum(n).String(); !strings.Contains(message, release) {
			b.Errorf("no word of %s: %s", release, message)
		}
	}
	if b.AwaitTrue(shop, v1alpha1.ConditionReady); len(shop.Status.VolumeLocks) > 0 || b.SQL("shop", "SHOW server_version_num") != running {
		b.Errorf("it was touched: %+v", shop.Status)
	}
	b.Logf("not possible with these images: %s", message)
	return true
}

// firstBackupOf fails the test unless the new lineage has the backup that the upgrade asked for.
func (b *bed) firstBackupOf(upgrade *v1alpha1.Upgrade) {
	b.Helper()
	backups := &v1alpha1.BackupList{}
	b.Must(b.List(b.Context(), backups, client.InNamespace(b.Namespace)))
	for i := range backups.Items {
		backup := &backups.Items[i]
		if by := backup.Spec.RequestedBy; by != nil && by.UID == upgrade.UID {
			b.AwaitTrue(backup, v1alpha1.ConditionSucceeded)
			return
		}
	}
	b.Errorf("of %d Backups none was asked for by the upgrade", len(backups.Items))
}

func TestAFailedUpgradeLeavesTheOldVersionRunning(t *testing.T) {
	subset.OneIn(t, 2)
	t.Parallel()
	b := newBed(t, "minio")
	shop := b.Cluster("shop", 15)
	b.SQL("shop", "CREATE TABLE t AS SELECT n, md5(n::text) FROM generate_series(1, 1000) AS n")
	before := b.SQL("shop", sum)
	// What no check of the schema can see: a file of the table is gone.
	file := b.SQL("shop", "CHECKPOINT", "SELECT pg_relation_filepath('t')")
	b.Must(b.Get(t.Context(), keyOf(shop), shop))
	hide, show := "mv /var/lib/howdah/current/pgdata/%[1]s /var/lib/howdah/hidden", "mv /var/lib/howdah/hidden /var/lib/howdah/current/pgdata/%[1]s"
	_, err := b.Exec("shop-0", "sh", "-c", fmt.Sprintf(hide, file))
	b.Must(err)
	upgrade := b.upgradeTo("up", 18, false)
	b.AwaitReason(upgrade, v1alpha1.ConditionSucceeded, v1alpha1.ReasonRolledBack, "pg_upgrade")
	b.AwaitTrue(shop, v1alpha1.ConditionReady)
	_, err = b.Exec("shop-0", "sh", "-c", fmt.Sprintf(show, file))
	b.Must(err)
	if got := b.SQL("shop", sum); got != before || shop.Status.MajorVersion != 15 {
		t.Errorf("it runs %s with %s, not 15 with %s", shop.Status.Version, got, before)
	}
}
