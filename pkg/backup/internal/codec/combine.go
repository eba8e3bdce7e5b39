package codec

// reversed is the polynomial of CRC-32C with its bits reversed, as the checksum is computed.
const reversed = 0x82f63b78

// powers are x to the power of 2 to the power of each index, modulo the polynomial.
var powers = func() (table [32]uint32) {
	table[0] = 1 << 30 // x
	for i := 1; i < len(table); i++ {
		table[i] = multiply(table[i-1], table[i-1])
	}
	return table
}()

// multiply multiplies two polynomials modulo that of CRC-32C.
func multiply(a, b uint32) (product uint32) {
	for bit := uint32(1 << 31); a != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
			a &^= bit
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= reversed
		}
	}
	return product
}

// Combine is the CRC-32C of what has the checksum first, followed by that many bytes that have the checksum second. It reads none of
// them.
func Combine(first, second uint32, bytes int64) uint32 {
	shift := uint32(1 << 31) // x to the power of 0
	for bits, n := 3, bytes; n > 0; bits, n = (bits+1)%len(powers), n>>1 {
		if n&1 != 0 {
			shift = multiply(powers[bits], shift)
		}
	}
	return multiply(shift, first) ^ second
}
