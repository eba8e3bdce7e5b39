#include "textflag.h"

// One row of 32 lanes: t = sum ^ value; sum = t*prime ^ t>>17. Y0 to Y3 are the sums, Y8 the prime.
#define MIX(sum, t) \
	VPSRLD $17, sum, t; \
	VPMULLD Y8, sum, sum; \
	VPXOR t, sum, sum

#define MIX4 \
	MIX(Y0, Y4); \
	MIX(Y1, Y5); \
	MIX(Y2, Y6); \
	MIX(Y3, Y7)

#define ROW(at) \
	VPXOR 0(at), Y0, Y0; \
	VPXOR 32(at), Y1, Y1; \
	VPXOR 64(at), Y2, Y2; \
	VPXOR 96(at), Y3, Y3; \
	MIX4

// func sumPageAVX2(page *[PageSize]byte, first *[checksumRow]byte, base *[checksumLanes]uint32) uint32
TEXT ·sumPageAVX2(SB), NOSPLIT, $0-28
	MOVQ page+0(FP), SI
	MOVQ first+8(FP), DI
	MOVQ base+16(FP), BX
	MOVL $16777619, AX
	VMOVD AX, X8
	VPBROADCASTD X8, Y8
	VMOVDQU 0(BX), Y0
	VMOVDQU 32(BX), Y1
	VMOVDQU 64(BX), Y2
	VMOVDQU 96(BX), Y3
	ROW(DI)
	MOVQ $63, CX

next:
	ADDQ $128, SI
	ROW(SI)
	DECQ CX
	JNZ next

	// Two rows of zeroes.
	MIX4
	MIX4

	VPXOR Y1, Y0, Y0
	VPXOR Y3, Y2, Y2
	VPXOR Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPXOR X1, X0, X0
	VPSHUFD $0x4E, X0, X1
	VPXOR X1, X0, X0
	VPSHUFD $0xB1, X0, X1
	VPXOR X1, X0, X0
	VMOVD X0, AX
	VZEROUPPER
	MOVL AX, ret+24(FP)
	RET
