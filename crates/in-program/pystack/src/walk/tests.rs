use std::cell::Cell;

use super::*;

/// A program without Python.
#[test]
fn a_program_without_python_has_none() {
    assert!(Python::find().is_none());
}

thread_local! {
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

extern "C" fn this_thread() -> usize {
    THREAD.get()
}

/// A thread of 3.12 with two frames of one function, built by hand.
struct Picture(Vec<usize>);

/// Whether the layout is confirmed; the number of frames of a walk, and whether it was truncated.
type Seen = (Option<Result<(), Unknown>>, Option<(usize, bool)>);

/// Positions of the structures, in words.
const THREAD_STATE: usize = 0;
const CFRAME: usize = 16;
const FRAMES: [usize; 2] = [32, 48];
const CODE: usize = 64;
const NAME: usize = 96;
const TABLE: usize = 112;
const TYPES: [usize; 3] = [120, 121, 122];

/// In a frame: the next outer one, and the byte with its owner.
const PREVIOUS: usize = 1;
const OWNER: usize = 8;

impl Picture {
    fn new() -> Self {
        let mut picture = Self(vec![0; 128]);
        let types = TYPES.map(|at| picture.at(at));
        let words = [
            (THREAD_STATE + 7, picture.at(CFRAME)),
            (CFRAME, picture.at(FRAMES[0])),
            (FRAMES[0], picture.at(CODE)),
            (FRAMES[0] + PREVIOUS, picture.at(FRAMES[1])),
            (FRAMES[0] + 7, picture.at(CODE + 24)),
            (FRAMES[1], picture.at(CODE)),
            (FRAMES[1] + 7, picture.at(CODE + 24)),
            (CODE + 1, types[0]),
            (CODE + 8, 5 << 32),
            (CODE + 14, picture.at(NAME)),
            (CODE + 16, picture.at(NAME)),
            (CODE + 17, picture.at(TABLE)),
            (NAME + 1, types[1]),
            (NAME + 2, 4),
            // One byte per character, compact, ASCII.
            (NAME + 4, 1 << 2 | 1 << 5 | 1 << 6),
            (NAME + 5, usize::from_le_bytes(*b"f.py\0\0\0\0")),
            (TABLE + 1, types[2]),
        ];
        words.into_iter().for_each(|(at, word)| picture.0[at] = word);
        picture
    }

    fn with(words: &[(usize, usize)]) -> Self {
        let mut picture = Self::new();
        words.iter().for_each(|(at, word)| picture.0[*at] = *word);
        picture
    }

    fn at(&self, word: usize) -> usize {
        self.0.as_ptr() as usize + word * 8
    }

    fn python(&self) -> Python {
        THREAD.set(self.at(THREAD_STATE));
        let [code_type, text_type, bytes_type] = TYPES.map(|at| self.at(at));
        let symbols =
            Symbols { this_thread: this_thread as *const () as usize, code_type, text_type, bytes_type, runtime: 0, version: (3, 12) };
        Python { symbols, layout: Layout::of((3, 12), 0).expect("known") }
    }

    fn seen(&self) -> Seen {
        let python = self.python();
        let mut walk = Walk::default();
        // SAFETY: all addresses are within the picture, or are rejected before they are read.
        let is_walked = unsafe { python.walk(&mut walk) };
        (python.probe(), is_walked.then(|| (walk.frames().len(), walk.is_cut)))
    }
}

#[test]
fn a_picture_is_walked_and_resolved() {
    let picture = Picture::new();
    assert_eq!(picture.seen(), (Some(Ok(())), Some((2, false))));
    let python = picture.python();
    let resolved = python.resolve(Raw { code: picture.at(CODE), instruction: picture.at(CODE + 24) }).expect("resolved");
    assert_eq!((resolved.file.as_str(), resolved.function.as_str(), resolved.first_line), ("f.py", "f.py", 5));
    THREAD.set(0);
    assert!(python.probe().is_none(), "a thread without Python");
}

/// The innermost frames are right, independent of the rest of the chain.
#[test]
fn a_chain_that_loops_is_cut() {
    for to in FRAMES {
        let mut looped = Picture::new();
        looped.0[FRAMES[1] + PREVIOUS] = looped.at(to);
        assert_eq!(looped.seen(), (Some(Ok(())), Some((FRAMES_MAX, true))));
        let (python, mut walk) = (looped.python(), Walk::default());
        // SAFETY: as above.
        assert!(unsafe { python.walk(&mut walk) });
        assert!(walk.frames().iter().all(|frame| frame.code == looped.at(CODE)) && walk.hash != 0);
    }
}

/// Frames without a function do not count as frames, so the number of links is limited, too.
#[test]
fn a_loop_without_functions_has_no_line() {
    let owner = usize::from(OWNER_NOT_PYTHON) << 48;
    let mut looped = Picture::with(&[(FRAMES[0] + OWNER, owner), (FRAMES[1] + OWNER, owner)]);
    looped.0[FRAMES[1] + PREVIOUS] = looped.at(FRAMES[0]);
    assert_eq!(looped.seen(), (Some(Err(Unknown::Layout)), None));
}

#[test]
fn a_wrong_word_has_no_line() {
    let unknown = (Some(Err(Unknown::Layout)), None);
    for (at, word, what) in [
        (FRAMES[1] + PREVIOUS, 13, "not aligned"),
        (FRAMES[1] + PREVIOUS, 1 << 50, "no address"),
        (FRAMES[1], 24, "no code object"),
        (CODE + 1, 77, "another type"),
        (THREAD_STATE + 7, 3, "no frame"),
    ] {
        assert_eq!(Picture::with(&[(at, word)]).seen(), unknown, "{what}");
    }
    // Addresses that the first check rejects are never read plainly.
    for (at, word, what) in [
        (FRAMES[1] + PREVIOUS, 0x1000, "not mapped"),
        (THREAD_STATE + 7, 0x1000, "no frame"),
        (CODE + 14, 0x1000, "no name"),
        (NAME + 2, usize::MAX, "a name without an end"),
        (NAME + 4, 0, "a name of no width"),
        (TABLE + 2, usize::MAX, "a table without an end"),
    ] {
        assert_eq!(Picture::with(&[(at, word)]).python().probe(), Some(Err(Unknown::Layout)), "{what}");
    }
}
