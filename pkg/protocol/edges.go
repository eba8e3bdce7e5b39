package protocol

// Edge is one way in which two controllers depend on each other, for docs/protocol.md.
type Edge struct {
	// Name of the edge.
	Name string
	// Asker writes Ask; Answerer writes Answer.
	Asker, Ask, Answerer, Answer string
	// Over says when the ask has ended.
	Over string
	// Rules that both sides keep.
	Rules []string
	// Functions of this package that are the edge.
	Functions []string
}

// Edges is every edge there is.
var Edges = []Edge{
	{
		Name:  "Hold",
		Asker: "restore-controller, upgrade-controller", Ask: "`Restore.status.hold`, `Upgrade.status.hold`",
		Answerer: "db-controller", Answer: "`PostgresCluster.status.holds[]`",
		Over: "the asker clears its `hold`, or is gone from the API server",
		Rules: []string{
			"One asker holds a cluster at a time: the oldest first, by creationTimestamp, then UID.",
			"Granted means that PostgreSQL was shut down cleanly, that no pod uses the volumes, and that the volumes named in the answer are the asker's. The first of them has the data, and is where a Handover's generation has to be; the others are copies.",
			"An asker that clears its hold without a Handover gets the cluster back as it was: the db-controller starts it on the generation of before.",
			"A cluster that is being deleted refuses new holds; its deletion waits for the one that is held.",
		},
		Functions: []string{"HoldAsks", "AnswerHolds", "Holder", "MustBeStopped", "HoldAnswerFor", "HoldBefore"},
	},
	{
		Name:  "Handover",
		Asker: "restore-controller, upgrade-controller", Ask: "`Restore.status.handover`, `Upgrade.status.handover`",
		Answerer: "db-controller", Answer: "`PostgresCluster.status.holds[].adoptedGeneration`, `PostgresCluster.status.dataGeneration`",
		Over: "the asker clears its `hold`",
		Rules: []string{
			"Said only under a granted hold, with its token, after the containers of the Job that wrote the generation have ended.",
			"Adopting is recorded in status before a pod starts on it. From then on the volumes are the cluster's again.",
			"A Handover that names the generation of before, under the same hold or a later one, takes the adoption back; `instance` says whose volume has it. Its asker waits for `adoptedGeneration`: that the cluster is on it still says nothing, for a handover may be on its way.",
			"The asker clears its hold only when the cluster is Ready on what it handed over.",
		},
		Functions: []string{"PendingHandover", "Adopt", "Adopted"},
	},
	{
		Name:  "Logins",
		Asker: "db-controller", Ask: "`PostgresCluster.spec.bootstrap.restore`, until there is data",
		Answerer: "restore-controller", Answer: "Secrets `<cluster>-app` and `<cluster>-superuser`, and those of declared roles, as far as the backup has them",
		Over: "a Handover is adopted",
		Rules: []string{
			"They are made before the hold is asked for, and owned by the PostgresCluster: when it goes, they go.",
			"A Secret that is there is never changed. One of a name that the cluster needs for itself and that somebody else owns ends the Restore before anything is made; one of a declared role is used as it is.",
			"The db-controller makes none of its own before it has adopted the data. Then it makes what is missing, and keeps the passwords that are there.",
		},
		Functions: []string{"MakesLogins", "LoginOwner", "LoginsOf"},
	},
	{
		Name:  "Release",
		Asker: "restore-controller", Ask: "`Restore.status.release`",
		Answerer: "db-controller", Answer: "`PostgresCluster.status.releasedDataGenerations[]`",
		Over: "the asker clears its `release`, or is gone",
		Rules: []string{
			"Said only of a data generation that the asker wrote, or that it replaced, once a decision that is recorded gave it up.",
			"The data generation that the cluster runs on, and one in a Handover, is never released.",
			"Instances remove what is released from their volumes, at once or when they come back. It is never adopted again.",
		},
		Functions: []string{"Release", "Released"},
	},
	{
		Name:  "BackupWanted",
		Asker: "db-controller, restore-controller, upgrade-controller", Ask: "`PostgresCluster.status.backupWanted`, `Restore.status.backupWanted`, `Upgrade.status.backupWanted`",
		Answerer: "backup-controller", Answer: "the status of the Backup whose name follows from the request",
		Over: "the asker clears its `backupWanted`, or is gone; the Backup stays",
		Rules: []string{
			"The Backup's name follows from the token, so asking twice makes one Backup.",
			"A Backup of that name that somebody else made doesn't count: its `spec.requestedBy.token` must match.",
		},
		Functions: []string{"BackupAskOf", "NewBackup", "BackupName", "BackupAnswerFor"},
	},
	{
		Name:  "Facts",
		Asker: "backup-controller, restore-controller, upgrade-controller", Ask: "nothing",
		Answerer: "db-controller", Answer: "`PostgresCluster.status`: instances with node, volume, role and timeline; primary; system identifier; version and image; data generation; archive health; connection",
		Over: "never",
		Rules: []string{
			"They count only while `status.observedGeneration` equals `metadata.generation`.",
			"A BackupRepository's `Ready` condition and a Backup's status are facts in the same way.",
		},
		Functions: []string{"Current", "Lineage"},
	},
}
