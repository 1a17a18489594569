//! Packed segments: zstd frames of one block each, with the seek table of zstd's "seekable format"
//! behind them (zstd repository, `contrib/seekable_format`). `zstd -dc` unpacks them; a reader that
//! needs one block unpacks one frame.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::LogError;
use super::segment::{Segment, next_block};

/// Fast; the lines are alike enough that higher levels gain little.
const LEVEL: i32 = 1;
/// A skippable frame of kind 0xE, which the seek table is.
const SKIPPABLE: u32 = 0x184D_2A5E;
const SEEKABLE: u32 = 0x8F92_EAB1;
const ENTRY: usize = 8;
/// Number of frames, descriptor, magic.
const FOOTER: usize = 4 + 1 + 4;
const SKIPPABLE_HEADER: usize = 4 + 4;

/// Packs a segment and removes the plain file.
pub fn pack(segment: &Segment) -> Result<(), LogError> {
    let (plain, packed) = (segment.plain(), segment.packed());
    let draft = packed.with_extension("zst.new");
    let file = File::open(&plain).map_err(LogError::file(&plain))?;
    let result = write(BufReader::new(file), &draft)
        .and_then(|()| fs::rename(&draft, &packed))
        .and_then(|()| sync_parent(&packed))
        .and_then(|()| fs::remove_file(&plain));
    if result.is_err() {
        // Left over at most; it is overwritten next time.
        let _ = fs::remove_file(&draft);
    }
    result.map_err(LogError::file(&packed))
}

fn write(mut lines: BufReader<File>, draft: &Path) -> std::io::Result<()> {
    let mut out =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(draft)?;
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    let mut table = Vec::new();
    loop {
        let block = next_block(&mut lines)?;
        if block.is_empty() {
            break;
        }
        let frame = compressor.compress(&block)?;
        out.write_all(&frame)?;
        table.extend_from_slice(&size(frame.len())?.to_le_bytes());
        table.extend_from_slice(&size(block.len())?.to_le_bytes());
    }
    out.write_all(&SKIPPABLE.to_le_bytes())?;
    out.write_all(&size(table.len() + FOOTER)?.to_le_bytes())?;
    out.write_all(&table)?;
    out.write_all(&size(table.len() / ENTRY)?.to_le_bytes())?;
    out.write_all(&[0])?;
    out.write_all(&SEEKABLE.to_le_bytes())?;
    out.sync_all()
}

fn size(length: usize) -> std::io::Result<u32> {
    u32::try_from(length).map_err(std::io::Error::other)
}

/// Makes a rename durable.
pub fn sync_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// A packed segment in memory.
#[derive(Debug)]
pub struct Packed {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Where it begins in the packed file, and how long it is.
    packed: usize,
    packed_length: usize,
    /// Where its lines begin in the plain segment, and how long they are.
    plain: u64,
    plain_length: usize,
}

impl Packed {
    /// Reads the seek table. It must account for every byte of the file.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let frames = frames(&bytes).ok_or("its seek table is damaged")?;
        Ok(Self { bytes, frames })
    }

    /// The frame that begins at an offset of the plain segment, or the one after the last.
    pub fn frame_at(&self, plain: u64) -> usize {
        self.frames.partition_point(|frame| frame.plain < plain)
    }

    /// The lines of a frame; none after the last.
    pub fn frame(&self, number: usize) -> Result<Vec<u8>, String> {
        let Some(frame) = self.frames.get(number) else { return Ok(Vec::new()) };
        let packed = &self.bytes[frame.packed..frame.packed + frame.packed_length];
        // The table's length is only a guess until it is checked, so it allocates a block at most.
        let mut lines = Vec::with_capacity(frame.plain_length.min(2 * super::segment::BLOCK));
        zstd::stream::read::Decoder::with_buffer(packed)
            .map(zstd::stream::read::Decoder::single_frame)
            .and_then(|decoder| decoder.take(frame.plain_length as u64 + 1).read_to_end(&mut lines))
            .map_err(|error| format!("frame {number}: {error}"))?;
        if lines.len() != frame.plain_length || lines.is_empty() {
            return Err(format!("frame {number} has another length than the seek table says"));
        }
        Ok(lines)
    }

    /// The lines between two offsets of the plain segment that are block boundaries.
    pub fn read(&self, start: u64, end: u64) -> Result<Vec<u8>, String> {
        let mut lines = Vec::new();
        let mut number = self.frame_at(start);
        while self.frames.get(number).is_some_and(|frame| frame.plain < end) {
            lines.extend_from_slice(&self.frame(number)?);
            number += 1;
        }
        Ok(lines)
    }
}

fn frames(bytes: &[u8]) -> Option<Vec<Frame>> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let footer = bytes.len().checked_sub(FOOTER)?;
    let count = word(footer)? as usize;
    let table = footer.checked_sub(count.checked_mul(ENTRY)?)?;
    let header = table.checked_sub(SKIPPABLE_HEADER)?;
    if word(footer + 5)? != SEEKABLE
        || bytes[footer + 4] != 0
        || word(header)? != SKIPPABLE
        || word(header + 4)? as usize != count * ENTRY + FOOTER
    {
        return None;
    }
    let mut frames = Vec::with_capacity(count);
    let (mut packed, mut plain) = (0_usize, 0_u64);
    for entry in 0..count {
        let packed_length = word(table + entry * ENTRY)? as usize;
        let plain_length = word(table + entry * ENTRY + 4)? as usize;
        frames.push(Frame { packed, packed_length, plain, plain_length });
        packed = packed.checked_add(packed_length)?;
        plain += plain_length as u64;
    }
    (packed == header).then_some(frames)
}
