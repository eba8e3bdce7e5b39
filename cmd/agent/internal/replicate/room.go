package replicate

// spareRoom is what a clone takes beside the databases: WAL, and what is written meanwhile.
const spareRoom = 128 << 20

// Room is how much space a clone of databases of this size needs, in bytes.
func Room(bytes int64) int64 { return bytes + bytes/20 + spareRoom }
