//! Segments: the files that a log consists of.
//!
//! `0000000001.jsonl` is plain; once full it becomes `0000000001.jsonl.zst`. Both are read in
//! blocks of whole lines, and a block has the same boundaries in both.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::key::PublicKey;
use super::pack::Packed;
use super::{LogError, encode};

/// A block ends with the line that makes it at least this long.
pub const BLOCK: usize = 128 << 10;

/// A segment's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its number; the first of a log is 1.
    pub number: u64,
    /// The directory it lies in.
    dir: PathBuf,
}

/// Whole lines of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Where it begins, in bytes of the plain segment.
    pub start: u64,
    /// The lines, each with its newline; only the very last of a segment may lack it.
    pub bytes: Vec<u8>,
}

impl Segment {
    /// The segment with this number.
    pub fn new(dir: &Path, number: u64) -> Self {
        Self { number, dir: dir.to_owned() }
    }

    /// The segments of the log in `dir`, oldest first.
    pub fn list(dir: &Path) -> Result<Vec<Self>, LogError> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(dir).map_err(LogError::file(dir))? {
            let name = entry.map_err(LogError::file(dir))?.file_name();
            numbers.extend(name.to_str().and_then(number_of));
        }
        numbers.sort_unstable();
        numbers.dedup(); // plain and packed, when packing was interrupted
        Ok(numbers.into_iter().map(|number| Self::new(dir, number)).collect())
    }

    /// Where it is while it is written to.
    pub fn plain(&self) -> PathBuf {
        self.dir.join(format!("{:010}.jsonl", self.number))
    }

    /// Where it is when it is packed.
    pub fn packed(&self) -> PathBuf {
        self.dir.join(format!("{:010}.jsonl.zst", self.number))
    }

    /// Is it packed, and the plain file gone?
    pub fn is_packed(&self) -> bool {
        !self.plain().exists() && self.packed().exists()
    }

    /// Bytes it takes on disk.
    pub fn disk_bytes(&self) -> u64 {
        [self.plain(), self.packed()].iter().filter_map(|p| Some(fs::metadata(p).ok()?.len())).sum()
    }

    /// Removes its files.
    pub fn remove(&self) -> Result<(), LogError> {
        for path in [self.plain(), self.packed()] {
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(LogError::file(&path)(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens it for reading. One that is packed meanwhile is found all the same.
    pub fn open(&self) -> Result<Source, LogError> {
        let plain = self.plain();
        match File::open(&plain) {
            Ok(file) => Ok(Source::Plain { file, path: plain }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let path = self.packed();
                let bytes = fs::read(&path).map_err(LogError::file(&path))?;
                Packed::parse(bytes)
                    .map(Source::Packed)
                    .map_err(|problem| LogError::Damaged { segment: self.number, problem })
            }
            Err(e) => Err(LogError::file(&plain)(e)),
        }
    }

    fn damaged(&self, problem: impl Into<String>) -> LogError {
        LogError::Damaged { segment: self.number, problem: problem.into() }
    }

    /// The lines between two offsets that are block boundaries.
    pub fn read(&self, source: &Source, start: u64, end: u64) -> Result<Vec<u8>, LogError> {
        match source {
            Source::Plain { file, path } => {
                let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start).map_err(LogError::file(path))?;
                Ok(bytes)
            }
            Source::Packed(packed) => packed.read(start, end).map_err(|e| self.damaged(e)),
        }
    }

    /// All blocks from an offset that is a block boundary.
    pub fn blocks<'a>(&'a self, source: &'a Source, from: u64) -> Result<Blocks<'a>, LogError> {
        let inner = match source {
            Source::Plain { file, path } => {
                let mut file = file.try_clone().map_err(LogError::file(path))?;
                file.seek(SeekFrom::Start(from)).map_err(LogError::file(path))?;
                Inner::Plain(BufReader::with_capacity(BLOCK, file), path)
            }
            Source::Packed(packed) => Inner::Packed(packed, packed.frame_at(from)),
        };
        Ok(Blocks { segment: self, inner, at: from })
    }
}

fn number_of(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(".jsonl.zst").or_else(|| name.strip_suffix(".jsonl"))?;
    stem.bytes().all(|byte| byte.is_ascii_digit()).then(|| stem.parse().ok())?
}

/// An open segment.
#[derive(Debug)]
pub enum Source {
    /// Lines as they are.
    Plain {
        /// The file.
        file: File,
        /// Its name, for errors.
        path: PathBuf,
    },
    /// Packed lines, in memory.
    Packed(Packed),
}

/// The blocks of a segment, in order.
#[derive(Debug)]
pub struct Blocks<'a> {
    segment: &'a Segment,
    inner: Inner<'a>,
    at: u64,
}

#[derive(Debug)]
enum Inner<'a> {
    Plain(BufReader<File>, &'a Path),
    Packed(&'a Packed, usize),
}

impl Iterator for Blocks<'_> {
    type Item = Result<Block, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let bytes = match &mut self.inner {
            Inner::Plain(reader, path) => next_block(reader).map_err(LogError::file(path)),
            Inner::Packed(packed, frame) => {
                let bytes = packed.frame(*frame).map_err(|e| self.segment.damaged(e));
                *frame += 1;
                bytes
            }
        };
        match bytes {
            Ok(bytes) if bytes.is_empty() => None,
            Ok(bytes) => {
                self.at += bytes.len() as u64;
                Some(Ok(Block { start, bytes }))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// Reads lines until they make a block, or until the end.
pub fn next_block(reader: &mut BufReader<File>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(BLOCK + 4096);
    while bytes.len() < BLOCK {
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
    }
    Ok(bytes)
}

/// The whole of a plain file, for recovery.
pub fn read_plain(path: &Path) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut f| f.read_to_end(&mut bytes)).map_err(LogError::file(path))?;
    Ok(bytes)
}

/// The body of a segment's first record, which is signed.
pub fn head_body(segment: u64, key: PublicKey, at: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(256);
    encode::begin(&mut body, at, "log.segment");
    encode::number(&mut body, "postern.log.segment", segment);
    encode::text(&mut body, "postern.log.public_key", &key.to_string());
    body
}

/// The number of a segment's first record; `None` when it cannot be read.
pub fn first_seq(segment: &Segment) -> Result<Option<u64>, LogError> {
    let source = match segment.open() {
        Err(LogError::Damaged { .. }) => return Ok(None),
        other => other?,
    };
    let Some(Ok(block)) = segment.blocks(&source, 0)?.next() else { return Ok(None) };
    let line = block.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(super::chain::Line::parse(line).map(|line| line.seq))
}
