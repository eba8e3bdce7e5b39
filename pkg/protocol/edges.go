package protocol

// Edge is one way in which two controllers depend on each other, for docs/protocol.md.
type Edge struct {
	// Name of the edge.
	Name string
	// Requester writes Request; Responder writes Response.
	Requester, Request, Responder, Response string
	// Over says when the request has ended.
	Over string
	// Rules that both sides keep.
	Rules []string
	// Functions of this package that are the edge.
	Functions []string
}

// Edges is every edge there is.
var Edges = []Edge{
	{
		Name:      "VolumeLock",
		Requester: "restore-controller, upgrade-controller", Request: "`Restore.status.volumeLockRequest`, `Upgrade.status.volumeLockRequest`",
		Responder: "db-controller", Response: "`PostgresCluster.status.volumeLocks[]`",
		Over: "the requester clears its `volumeLockRequest`, or no longer exists",
		Rules: []string{
			"One requester at a time has the lock: the oldest first, by creationTimestamp, then UID.",
			"Granted means that PostgreSQL was stopped, that no pod uses the volumes, and that the volumes named in the response belong to the requester. `shutdown` says whether it was stopped cleanly, as far as the exit status of its container was seen; a requester that discards data trusts only the pg_control of that data. `archived` says whether the last primary said, when it ended, that all of its WAL is archived. The first of them has the data, and is where a Handover's generation has to be; the others are copies.",
			"Nothing is stopped while a pod is being deleted or its node doesn't respond: the request stays queued, and `message` names the pod. `stoppingSince` is recorded before the stop begins. A stop that doesn't come to an end is given up: the request is refused, and the cluster starts again.",
			"Before the stop begins, the agents are told that replicas end after their primary, with everything that it has written; `tellingSince` records since when. If the request has `replicasLast`, each agent has to know. Otherwise one that hasn't said so within 15 s is not waited for.",
			"The StatefulSet carries the token of the lock, with `replicas: 0`, before the lock is granted, and each write of it names the version that it is based on. So a db-controller that was held up since before the request starts nothing.",
			"`maxDowntime` of the request makes a `deadline` in the response. If nothing was handed over until then, the request is refused, whether the requester is there or not, and the cluster starts on the previous generation once no pod of the requester's Job is left. The requester takes the data back if clients were not led to it until then.",
			"A request that a person's decision to bring the previous data back has led to is refused, and nothing is stopped, if the agent of the instance says that its volume has no copy of that data: status may come from a backup of etcd.",
			"When a person decides which data the cluster runs on, because the volumes have seen a later adoption than status, every lock is refused: requests and Handovers came back with a backup of etcd.",
			"Refused is final for that request: its requester withdraws it.",
			"When a requester clears its request without a Handover, the cluster is as it was: the db-controller starts it on the previous generation.",
			"A cluster that is being deleted refuses new requests; its deletion waits for the lock that is granted.",
		},
		Functions: []string{"LockRequests", "VolumeLocks", "Holder", "MustBeStopped", "LockFor", "LockAhead"},
	},
	{
		Name:      "Handover",
		Requester: "restore-controller, upgrade-controller", Request: "`Restore.status.handover`, `Upgrade.status.handover`",
		Responder: "db-controller", Response: "`PostgresCluster.status.volumeLocks[].adoptedGeneration`, `PostgresCluster.status.dataGeneration`",
		Over: "the requester clears its `volumeLockRequest`",
		Rules: []string{
			"Written only under a granted lock, with its token, after the containers of the Job that wrote the generation have ended.",
			"A requester whose cluster runs on what it wrote, without a lock that says Adopted, knows that clients have used that data: its own status is from a backup of etcd. (Upgrade)",
			"Adopting is recorded in status before a pod starts on it. From then on the volumes belong to the cluster again.",
			"A Handover that names the previous generation, under the same lock or a later one, reverts the adoption; `instance` says whose volume has it. Its requester waits for `adoptedGeneration`: that the cluster still runs on that generation proves nothing, as a handover may be in progress.",
			"Once clients were led to the adopted data, the response says so in `servedSince`, for good. From then on no other Handover under this lock is adopted: only a later lock, which a person's decision requests, leads back.",
			"An adoption is reverted when all instances are stopped and none of them has led clients to the data.",
			"The requester clears its request only when `servedSince` is there for what it handed over, or the previous data was adopted again.",
		},
		Functions: []string{"PendingHandover", "Adopt", "Adopted", "Serve"},
	},
	{
		Name:      "Logins",
		Requester: "db-controller", Request: "`PostgresCluster.spec.bootstrap.restore`, until there is data",
		Responder: "restore-controller", Response: "Secrets `<cluster>-app` and `<cluster>-superuser`, and those of declared roles, as far as the backup has them",
		Over: "a Handover is adopted",
		Rules: []string{
			"They are created before the volume lock is requested, and owned by the PostgresCluster: they are deleted with it.",
			"An existing Secret is never changed. If the cluster needs its name and somebody else owns it, the Restore fails before anything is created; the Secret of a declared role is used as it is.",
			"The db-controller creates none of its own before it has adopted the data. Then it creates what is missing, and keeps existing passwords.",
		},
		Functions: []string{"CreatesLogins", "LoginOwner", "LoginsOf"},
	},
	{
		Name:      "Release",
		Requester: "restore-controller, upgrade-controller", Request: "`Restore.status.release`, `Upgrade.status.release`",
		Responder: "db-controller", Response: "`PostgresCluster.status.releasedDataGenerations[]`",
		Over: "the requester clears its `release`, or no longer exists",
		Rules: []string{
			"Written only for a data generation that the requester wrote or replaced, once a recorded decision gave it up.",
			"A Restore or an Upgrade of a cluster with a repository writes it for the previous generation only once a backup of the new generation has succeeded: until then the previous one may be the only way back, as no backup of it leads to what was written to the new one.",
			"A Restore writes it for the previous generation without a person's decision only if all of that is archived and one of its backups has succeeded: the restored data lacks the last rows of it. What an Upgrade has written has every row of the previous one.",
			"The data generation that the cluster runs on, one in a Handover, and the previous one of a Restore or an Upgrade that may be undone, is never released.",
			"Instances remove a released generation from their volumes, at once or when they return. It is never adopted again.",
		},
		Functions: []string{"ReleaseRequests", "Release", "Released", "Restorable"},
	},
	{
		Name:      "WayBack",
		Requester: "restore-controller, upgrade-controller", Request: "nothing",
		Responder: "restore-controller, upgrade-controller", Response: "`Restore.status` and `Upgrade.status`: `previous`, `plan`, `decided`, `completedAt`, `settledAt`",
		Over: "never",
		Rules: []string{
			"An undo waits for those who have replaced its data since, as long as undoing them one after another leads back to it. Once one of them is confirmed, has ended or no longer exists, the undo ends as `UndoImpossible`.",
			"They are read past the cache, and the PostgresCluster before and after them: they count only if its data generation was the same.",
			"While the cluster accepts no connections, a data generation that nobody is known to have written is waited for: a person may still choose what the cluster runs on.",
		},
		Functions: []string{"Writers", "FindWayBack"},
	},
	{
		Name:      "BackupRequest",
		Requester: "db-controller, restore-controller, upgrade-controller", Request: "`PostgresCluster.status.backupRequest`, `Restore.status.backupRequest`, `Upgrade.status.backupRequest`",
		Responder: "backup-controller", Response: "the status of the Backup whose name follows from the request",
		Over: "the requester clears its `backupRequest`, or no longer exists; the Backup stays",
		Rules: []string{
			"The Backup's name follows from the token, so a repeated request creates one Backup.",
			"A Backup of that name that somebody else created doesn't count: its `spec.requestedBy.token` must match.",
		},
		Functions: []string{"BackupRequestOf", "NewBackup", "BackupName", "BackupOutcomeFor"},
	},
	{
		Name:      "PoolerCertificate",
		Requester: "pooler-controller", Request: "the Pooler itself: `spec.cluster`",
		Responder: "db-controller", Response: "Secret `<cluster>-pooler`, and `PostgresCluster.status.poolers[]` with the Poolers that its certificate is for",
		Over: "the Pooler is deleted",
		Rules: []string{
			"The certificate is for the names of the Poolers' Services, and for the role `howdah_pooler`. It is issued before `status.poolers` says so.",
			"The pooler-controller starts pods once it says so. It reads no Secret: the pods mount it, and read it again when it changes.",
			"All Poolers of a cluster share one certificate. The oldest 64 have one.",
		},
		Functions: []string{"PoolersOf", "PoolerAdmitted", "PoolerSecret", "PoolerName", "PoolerHosts", "PrimarySlice"},
	},
	{
		Name:      "FailoverDrill",
		Requester: "drill-controller", Request: "`FailoverDrill.status.request`",
		Responder: "db-controller", Response: "`PostgresCluster.status.failoverDrill`, Secret `<cluster>-failover-drill`, and `PostgresCluster.status.drilledFaults`",
		Over: "the requester clears its `request`, or no longer exists",
		Rules: []string{
			"One FailoverDrill at a time has a response: the oldest first, by creationTimestamp, then UID. It keeps its turn until its request is over.",
			"`Prepared` means that the certificate of the role `howdah_failoverdrill` is in the Secret, and that the agents are told of the drill: the primary's agent creates the role and its schema. When the request is over, all three are removed.",
			"The fault is caused once `request.inject` names the instance and the UID of its pod. The db-controller looks again whether that is safe, records `Injecting` with both, and then acts. A repeat after a crash meets a pod of another UID, or another primary, and does nothing.",
			"`Refused` is final for that drill: its requester withdraws it.",
			"The response names the drill by its UID, so a response to a deleted drill is none to another one of its name.",
		},
		Functions: []string{"FailoverDrillOf", "FailoverDrillResponse", "FailoverDrillName", "FailoverDrillSecret", "DrilledFaults", "NextFault"},
	},
	{
		Name:      "Facts",
		Requester: "backup-controller, restore-controller, upgrade-controller", Request: "nothing",
		Responder: "db-controller", Response: "`PostgresCluster.status`: instances with node, volume, role and timeline; primary; system identifier; version and image; data generation; archive health; connection",
		Over: "never",
		Rules: []string{
			"They count only while `status.observedGeneration` equals `metadata.generation`.",
			"A BackupRepository's `Ready` condition and a Backup's status are facts in the same way.",
			"With `spec.updates.major: Automatic`, the upgrade-controller creates Upgrades by them, and the db-controller says in the reason `VersionPending` what it is going to do. Both decide by the same pure functions, of `pkg/majorupdate`.",
		},
		Functions: []string{"Current", "Lineage"},
	},
}
