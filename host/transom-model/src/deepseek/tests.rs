//! Silence in virtual time, and what the provider offers. The wire is in `tests/deepseek`.

use std::{convert::Infallible, sync::mpsc};

use futures_util::stream;
use proptest::prelude::*;
use tokio::time::{Instant, sleep};

use super::*;

fn provider(settings: Settings) -> DeepSeek {
    DeepSeek::new(Endpoint::default, settings)
}

/// A second, and what comes then.
type Read = (u64, &'static str);

/// Plays reads that come at these seconds and then nothing more.
async fn play(reads: &[Read]) -> Result<Finish, LlmFailure> {
    let begun = Instant::now();
    let reads = reads.to_vec();
    let reads = stream::unfold(reads.into_iter(), move |mut reads| async move {
        let Some((second, text)) = reads.next() else { return std::future::pending().await };
        let at = begun + Duration::from_secs(second);
        sleep(at - Instant::now()).await;
        Some((Ok::<_, Infallible>(text), reads))
    });
    let (sender, _chunks) = mpsc::sync_channel(4096);
    let out = Chunks::new(Box::new(move |chunk| drop(sender.send(chunk))));
    let upstream = Upstream::new(&Endpoint::default(), 300_000);
    provider(Settings::default()).play(Box::pin(reads), &upstream, &out).await
}

const HI: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// L-91, L-93: every byte re-arms the timer, comments too; nothing else does.
#[tokio::test(start_paused = true)]
async fn only_silence_runs_into_the_idle_timeout() {
    let timeout = LlmFailure::new("TIMEOUT", "DeepSeek stream idle timeout after 300000ms");
    let table: [(&[Read], Result<Finish, LlmFailure>); 6] = [
        (&[(299, HI), (598, DONE)], Ok(Finish::Stop)),
        (&[(299, ": still"), (598, " here\n"), (897, HI), (1196, DONE)], Ok(Finish::Stop)),
        (&[(301, HI)], Err(timeout.clone())),
        (&[(1, HI), (302, DONE)], Err(timeout.clone())),
        (&[(1, HI)], Err(timeout.clone())),
        // The end counts, whatever the server does after it.
        (&[(1, HI), (2, DONE)], Ok(Finish::Stop)),
    ];
    for (reads, expected) in table {
        assert_eq!(play(reads).await, expected, "{reads:?}");
    }
}

/// Reasoning, several bytes a character, a call, every line end, a comment, and bytes behind the end.
const ANSWER: &str = concat!(
    "\u{feff}data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\r\n\r\n",
    ": still here\r\rid: 7\ndata: {\"choices\":\ndata: [{\"delta\":{\"content\":\"你🦀\"}}]}\n\n",
    "data:{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\"}}]}}]}\r\r",
    "data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\ndata: {oops",
);

/// The chunks of an answer that is read in these pieces.
fn chunks(reads: Vec<Vec<u8>>) -> Vec<Chunk> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (sender, chunks) = mpsc::sync_channel(4096);
    let out = Chunks::new(Box::new(move |chunk| drop(sender.send(chunk))));
    let upstream = Upstream::new(&Endpoint::default(), 300_000);
    let reads = stream::iter(reads.into_iter().map(Ok::<_, Infallible>));
    let provider = provider(Settings::default());
    let reason = runtime.block_on(provider.play(reads, &upstream, &out)).unwrap();
    out.finish(reason);
    chunks.iter().collect()
}

proptest! {
    /// Where the reads of an answer begin and end makes no difference.
    #[test]
    fn reads_do_not_matter(mut cuts in proptest::collection::vec(0..ANSWER.len(), 0..60)) {
        let whole = chunks(vec![ANSWER.into()]);
        prop_assert_eq!(whole.len(), 11);
        cuts.sort_unstable();
        let mut rest = ANSWER.as_bytes().to_vec();
        let mut reads: Vec<Vec<u8>> = cuts.iter().rev().map(|cut| rest.split_off(*cut)).collect();
        reads.push(rest);
        reads.reverse();
        prop_assert_eq!(chunks(reads), whole);
    }
}

/// L-88, L-89.
#[test]
fn the_offer_is_the_documented_one() {
    let offer = provider(Settings::default()).offer("anything");
    assert_eq!(
        offer,
        Offer {
            model: None,
            max_tokens: Some(256_000),
            efforts: vec!["off".into(), "high".into(), "max".into()],
            effort: Some("high".into()),
            context_window: Some(1_000_000),
            images: false,
        }
    );
    let offer = provider(Settings { thinking: false, ..Settings::default() }).offer("anything");
    assert_eq!((offer.efforts, offer.effort), (vec!["off".to_owned()], Some("off".to_owned())));
}

/// Starting must stay cheap: roots and pools are made for the first request.
#[test]
fn making_a_provider_builds_no_client() {
    assert!(provider(Settings::default()).client.get().is_none());
}
