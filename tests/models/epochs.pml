/*
 * Epochs and limbo, with the store buffers of x86: no block is freed while a
 * reader that found it through a link may access it.
 *
 * Readers open sections: they load the epoch, announce it later, look up, check
 * Covers(), announce again if it is false, and access. They go on forever.
 * Writers replace or delete what the one link leads to, in blocks that are used
 * again. They retire it, and release what is in limbo, also what another writer
 * has put there: epoch, heavy fence, scan of the readers, and MaySee() where a
 * reader stalls. Whether one does is not counted: each release may find so.
 *
 * A reader's stores wait in a buffer, first in, first out, until memory takes
 * them or a heavy fence does, one reader after the other. The light fence is no
 * step at all. Writers need no buffer: a read-modify-write, of a lock or of
 * limbo, follows each of their stores.
 *
 * Left out: CPUs that reorder loads, threads that come and go (NobodyReads),
 * nested sections, which announce nothing, and what limbo does for speed:
 * stripes, batches, one scan for several blocks. A buffer has room for two
 * stores.
 *
 * tests/models/check defines READERS, WRITERS, and ROUNDS: how often the writers
 * unlink, together. It may define
 * FAULT  1  the heavy fence is left out
 *        2  the epoch ends before the block is unlinked
 *        3  Covers() is always true
 */

#define BLOCKS 3
#define BIRTH(epoch) (epoch >> 1)  /* kEpochsPerBirthBits */

#define MAY_SEE(epoch, birth) (birth << 1 <= epoch)
#if FAULT == 3
#define COVERS(mine) true
#else
#define COVERS(mine) (BIRTH(epoch) == BIRTH(mine))
#endif

byte epoch = 2;  /* a birth begins with it */
byte link = 1;   /* the block that readers find; 0 for none */
byte rounds;

byte announced[READERS];
chan buffer[READERS] = [2] of { byte };

/* Where a block is. A writer that takes it from limbo adds its own number. */
#define kFree 0
#define kUsed 1
#define kLimbo 2
#define kTaken 3

byte place[BLOCKS + 1];  /* by block, from 1, as the next */
byte birth[BLOCKS + 1];
byte ended[BLOCKS + 1];  /* the epoch after which none can find it; 0 before */

/* What readers have found, and whether it was freed since. */
byte found[READERS];
bool lost[READERS];

proctype Reader(byte me) {
  byte mine;
end:
  do
  :: mine = epoch;
     buffer[me]!mine;
     do
     :: atomic { found[me] = link; lost[me] = false };
        if
        :: found[me] == 0 -> break
        /* The access may come any time later. */
        :: found[me] != 0 && COVERS(mine) -> assert(!lost[me])
        :: found[me] != 0 && !COVERS(mine) ->
           found[me] = 0;
           mine = epoch;
           buffer[me]!mine
        fi
     :: break
     od;
     atomic { found[me] = 0; lost[me] = false; mine = 0 };
     buffer[me]!0
  od
}

/* Memory takes the oldest store of a buffer when it likes. */
proctype Memory(byte reader) {
end:
  do
  :: buffer[reader]?announced[reader]
  od
}

/* Or AdvanceBirth(), where a reader seems to stall. */
inline AdvanceEpoch() {
  atomic {
    if
    :: now = epoch; epoch++
    :: stalled = true; now = epoch + 1; epoch = epoch + 2
    fi
  }
}

inline HeavyFence() {
  do
  :: atomic {
       r < READERS;
       do
       :: buffer[r]?announced[r]
       :: empty(buffer[r]) -> break
       od;
       r++
     }
  :: atomic { r == READERS -> r = 0; break }
  od
}

/* Scans the readers, then frees the block or has it wait for the next time. */
inline FreeOrKeep(block) {
  do
  :: atomic {
       r < READERS;
       newest = (announced[r] > ended[block] || announced[r] < newest -> newest : announced[r]);
       r++
     }
  :: atomic { r == READERS -> r = 0; break }
  od;
  atomic {
    if
    :: newest == 0 || stalled && !MAY_SEE(newest, birth[block]) ->
       for (r : 0 .. READERS - 1) {
         lost[r] = lost[r] || found[r] == block
       }
       r = 0;
       birth[block] = 0;
       ended[block] = 0;
       place[block] = kFree
    :: else -> place[block] = kLimbo
    fi;
    newest = 0
  }
}

proctype Writer(byte me) {
  byte b, r, made, old, now, newest;
  bool stalled;
  do
  :: atomic { rounds < ROUNDS -> rounds++ };
     /* Makes an object in the first free block, or none. */
     if
     :: atomic {
          made = 1;
          do
          :: made <= BLOCKS && place[made] != kFree -> made++
          :: else -> break
          od;
          made = (made > BLOCKS -> 0 : made);
          place[made] = (made == 0 -> kFree : kUsed)
        };
        birth[made] = (made == 0 -> 0 : BIRTH(epoch))
     :: true
     fi;
#if FAULT == 2
     AdvanceEpoch();
#endif
     atomic { old = link; link = made; made = 0 };
     atomic { place[old] = (old == 0 -> kFree : kLimbo); old = 0 };
     d_step {
       for (b : 1 .. BLOCKS) {
         place[b] = (place[b] == kLimbo -> kTaken + me : place[b])
       }
       b = 1
     };
#if FAULT != 2
     AdvanceEpoch();
#endif
#if FAULT != 1
     HeavyFence();
#endif
     do
     :: atomic {
          do
          :: b <= BLOCKS && place[b] != kTaken + me -> b++
          :: else -> break
          od;
          if
          :: b > BLOCKS -> b = 0; now = 0; stalled = false; break
          :: else -> ended[b] = (ended[b] == 0 -> now : ended[b])
          fi
        };
        FreeOrKeep(b)
     od
  :: else -> break
  od
}

init {
  byte i;
  atomic {
    place[1] = kUsed;
    birth[1] = BIRTH(epoch);
    for (i : 0 .. READERS - 1) {
      run Reader(i);
      run Memory(i)
    }
    for (i : 0 .. WRITERS - 1) {
      run Writer(i)
    }
    i = 0
  }
}
