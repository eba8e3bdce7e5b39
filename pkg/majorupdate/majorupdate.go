// Package majorupdate decides what becomes of a spec.version that is higher than the version that runs, where spec.updates.major is
// Automatic: first an Upgrade that only checks, then one that upgrades the cluster, once and in the window. It is pure. The
// upgrade-controller acts on it, and the db-controller shows what it says.
package majorupdate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/apis/v1alpha1"
	"howdah.dev/howdah/pkg/flow"
	"howdah.dev/howdah/pkg/updatewindow"
)

// Facts are what the decision is made from.
type Facts struct {
	// Cluster in question.
	Cluster *v1alpha1.PostgresCluster
	// Upgrades and Restores of its namespace.
	Upgrades []v1alpha1.Upgrade
	Restores []v1alpha1.Restore
	// Images of the suite by major version.
	Images map[int32]string
	// Now is the time.
	Now time.Time
}

// Decision is what is to be done now, and what is said of it.
type Decision struct {
	// Create is the Upgrade to create; nil: none.
	Create *v1alpha1.Upgrade
	// Check has yet to record its Successor; nil: nothing has to be recorded.
	Check, Successor *v1alpha1.Upgrade
	// Message says who does what, and when. Empty: no major version is wanted, or it is left to a person.
	Message string
	// Opens is when the window opens that is waited for; zero: none is.
	Opens time.Time
}

// Acts says whether anything is to be written.
func (d Decision) Acts() bool { return d.Create != nil || d.Check != nil }

// Automatic says whether an upgrade may begin without being asked for.
func Automatic(cluster *v1alpha1.PostgresCluster) bool {
	updates := cluster.Spec.Updates
	return updates != nil && updates.Major == v1alpha1.UpdateAutomatic
}

// Wanted says whether the cluster is to be upgraded without being asked for.
func Wanted(cluster *v1alpha1.PostgresCluster) bool {
	return Automatic(cluster) && cluster.DeletionTimestamp.IsZero() && cluster.Status.MajorVersion > 0 && cluster.Spec.Version > cluster.Status.MajorVersion
}

// Decide says what is to be done. The same facts lead to objects of the same names, so a repeat changes nothing.
func Decide(f Facts) Decision {
	if !Wanted(f.Cluster) {
		return Decision{}
	}
	if obstacle := f.image(); obstacle != "" {
		return Decision{Message: obstacle}
	}
	check := f.find(CheckName(f.Cluster))
	switch {
	case check == nil:
		return f.begin()
	case !metav1.IsControlledBy(check, f.Cluster) || !check.Spec.Automatic || !check.Spec.CheckOnly:
		return Decision{Message: fmt.Sprintf("Nothing is done: Upgrade %s was created by somebody else, and the automatic one needs its name. Delete it.", check.Name)}
	case !check.DeletionTimestamp.IsZero():
		return Decision{Message: fmt.Sprintf("Upgrade %s is being deleted. After that, another check runs.", check.Name)}
	case check.Status.CompletedAt == nil:
		return Decision{Message: fmt.Sprintf("Upgrade %s checks whether PostgresCluster %s can be upgraded, before anything else is done.", check.Name, f.Cluster.Name)}
	case !meta.IsStatusConditionTrue(check.Status.Conditions, v1alpha1.ConditionSucceeded):
		return Decision{Message: fmt.Sprintf("The check has failed: %s Nothing more is done. When that is fixed, delete Upgrade %s, and another check runs.", says(check), check.Name)}
	}
	return f.follow(check)
}

// image says why no image of the version is known; empty: one is. An image that spec names has to be of the new version.
func (f Facts) image() string {
	spec, runs := &f.Cluster.Spec, &f.Cluster.Status
	switch {
	case spec.Image == "" && f.Images[spec.Version] == "":
		return fmt.Sprintf("Nothing is done, because the suite has no image for PostgreSQL %d. Set postgres.images in the values of its chart, or spec.image.", spec.Version)
	case spec.Image != "" && spec.Image == runs.Image:
		return fmt.Sprintf("Nothing is done, because spec.image names the image of PostgreSQL %d, which runs. Set spec.image to one of PostgreSQL %d, or remove it.", runs.MajorVersion, spec.Version)
	}
	return ""
}

// begin has the check made, unless something else continues.
func (f Facts) begin() Decision {
	if obstacle := f.Obstacle(""); obstacle != "" {
		return Decision{Message: fmt.Sprintf("The upgrade-controller checks first whether PostgresCluster %s can be upgraded. %s", f.Cluster.Name, obstacle)}
	}
	check := f.upgrade(CheckName(f.Cluster))
	check.Spec.CheckOnly = true
	return Decision{Create: check, Message: fmt.Sprintf("Upgrade %s is being created, which checks whether PostgresCluster %s can be upgraded.", check.Name, f.Cluster.Name)}
}

// follow has the upgrade made that was checked, once.
func (f Facts) follow(check *v1alpha1.Upgrade) Decision {
	name := SuccessorName(check)
	successor, recorded := f.find(name), check.Status.Successor
	switch {
	case successor == nil && recorded != nil:
		return Decision{Message: fmt.Sprintf("Nothing is done, because Upgrade %s was deleted. To upgrade the cluster anyway, delete Upgrade %s, and it begins with another check.", recorded.Name, check.Name)}
	case successor == nil:
		return f.upgradeNow(name)
	case !metav1.IsControlledBy(successor, f.Cluster) || !successor.Spec.Automatic || successor.Spec.CheckOnly:
		return Decision{Message: fmt.Sprintf("Nothing is done: Upgrade %s was created by somebody else, and the automatic one needs its name. Delete it.", name)}
	}
	decision := Decision{Message: fmt.Sprintf("Upgrade %s upgrades PostgresCluster %s. %s", name, f.Cluster.Name, says(successor))}
	if successor.Status.CompletedAt != nil {
		decision.Message = fmt.Sprintf("Upgrade %s has ended: %s It is not tried again. To retry, delete Upgrade %s, and it begins with another check.", name, says(successor), check.Name)
	}
	if recorded == nil {
		decision.Check, decision.Successor = check, successor
	}
	return decision
}

// upgradeNow has the cluster upgraded, if its time has come.
func (f Facts) upgradeNow(name string) Decision {
	wait, opens := f.Wait()
	if wait == "" {
		wait = f.Obstacle("")
	}
	if wait != "" {
		return Decision{Message: fmt.Sprintf("The check has found no obstacle, and the upgrade-controller is going to upgrade PostgresCluster %s. %s", f.Cluster.Name, wait), Opens: opens}
	}
	return Decision{Create: f.upgrade(name), Message: fmt.Sprintf("Upgrade %s is being created, which upgrades PostgresCluster %s.", name, f.Cluster.Name)}
}

// Wait says until when an automatic upgrade waits, and when that is; empty: its time has come. A window that never opens has no time.
func (f Facts) Wait() (message string, opens time.Time) {
	earliest, err := updatewindow.Earliest(&f.Cluster.Spec, f.Now)
	switch {
	case !Automatic(f.Cluster):
		return "It waits until spec.updates.major is Automatic.", time.Time{}
	case err != nil:
		return "The upgrade can never start: " + flow.Sentence(err.Error()), time.Time{}
	case earliest.After(f.Now):
		return fmt.Sprintf("It waits until %s.", earliest.Format("2006-01-02 at 15:04 MST")), earliest
	}
	return "", time.Time{}
}

// CheckName is the name of the Upgrade that checks. Another version or another image has another check.
func CheckName(cluster *v1alpha1.PostgresCluster) string {
	checked := fmt.Sprintf("%s/%d/%d/%s", cluster.UID, cluster.Status.MajorVersion, cluster.Spec.Version, cluster.Spec.Image)
	return fmt.Sprintf("%s-to-%d-check-%s", shortened(cluster.Name), cluster.Spec.Version, digits(checked))
}

// SuccessorName is the name of the Upgrade that does what was checked. Each check has one: a person who deletes the check has all of it
// begin anew.
func SuccessorName(check *v1alpha1.Upgrade) string {
	return fmt.Sprintf("%s-to-%d-%s", shortened(check.Spec.Cluster.Name), check.Spec.Version, digits(string(check.UID)))
}

// longest is how much of the name of a cluster goes into that of an Upgrade, which has 48 characters at most.
const longest = 27

func shortened(cluster string) string {
	return strings.TrimRight(cluster[:min(len(cluster), longest)], "-.")
}

func digits(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:4])
}

// upgrade is an automatic Upgrade, which is deleted with the cluster.
func (f Facts) upgrade(name string) *v1alpha1.Upgrade {
	cluster := f.Cluster
	return &v1alpha1.Upgrade{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: name,
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelCluster: cluster.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindPostgresCluster, Name: cluster.Name, UID: cluster.UID, Controller: ptr.To(true),
			}},
		},
		Spec: v1alpha1.UpgradeSpec{
			Cluster: v1alpha1.LocalReference{Name: cluster.Name}, Version: cluster.Spec.Version, Image: cluster.Spec.Image, Automatic: true,
		},
	}
}

func (f Facts) find(name string) *v1alpha1.Upgrade {
	for i := range f.Upgrades {
		if f.Upgrades[i].Name == name {
			return &f.Upgrades[i]
		}
	}
	return nil
}

// says is what an Upgrade says of itself, as a sentence.
func says(upgrade *v1alpha1.Upgrade) string {
	condition := meta.FindStatusCondition(upgrade.Status.Conditions, v1alpha1.ConditionSucceeded)
	if condition == nil {
		return "The upgrade-controller has not looked at it yet."
	}
	return flow.Sentence(condition.Message)
}
