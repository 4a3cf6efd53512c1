//! The signer alone, over a scripted grant and a clock that waits for nobody.

use std::collections::VecDeque;

use super::*;

/// Gives these answers, one after the other, each after a second; counts in tokens how often it was asked.
struct Script {
    ready: bool,
    answers: VecDeque<Result<u64, &'static str>>,
    wants: Arc<Mutex<Vec<Want>>>,
}

#[async_trait::async_trait]
impl Grant for Script {
    fn is_ready(&self) -> bool {
        self.ready
    }

    async fn token(&mut self, want: &Want) -> Result<Granted, NetError> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let count = {
            let mut wants = self.wants.lock().unwrap();
            wants.push(want.clone());
            wants.len()
        };
        let seconds = self
            .answers
            .pop_front()
            .unwrap()
            .map_err(|why| unavailable(why.to_owned()))?;
        Ok(Granted {
            token: format!("t{count}").into(),
            lives: Some(Duration::from_secs(seconds)),
            scopes: BTreeSet::from(["a".to_owned()]),
        })
    }
}

fn signer(ready: bool, answers: &[Result<u64, &'static str>]) -> (OAuth, Arc<Mutex<Vec<Want>>>) {
    let wants = Arc::default();
    let script = Script {
        ready,
        answers: answers.iter().copied().collect(),
        wants: Arc::clone(&wants),
    };
    (OAuth::new(script), wants)
}

async fn signed(oauth: &OAuth) -> Result<Option<String>, NetError> {
    let mut parts = http::Request::new(()).into_parts().0;
    oauth.sign(&mut parts, &Bytes::new()).await?;
    let value = parts.headers.get(AUTHORIZATION);
    assert!(value.is_none_or(HeaderValue::is_sensitive));
    Ok(value.map(|value| value.to_str().unwrap().to_owned()))
}

/// What comes of this refusal of a request that was signed with `sent`.
async fn refused(
    oauth: &OAuth,
    sent: Option<&str>,
    status: u16,
    challenge: &str,
    round: u32,
) -> Result<bool, NetError> {
    let (mut headers, mut answer) = (HeaderMap::new(), HeaderMap::new());
    if let Some(sent) = sent {
        headers.insert(AUTHORIZATION, format!("Bearer {sent}").parse().unwrap());
    }
    answer.insert(WWW_AUTHENTICATE, challenge.parse().unwrap());
    let refusal = Refusal {
        sent: &headers,
        status: StatusCode::from_u16(status).unwrap(),
        headers: &answer,
        round,
    };
    oauth.refused(&refusal).await
}

fn bearer_of(token: &str) -> Option<String> {
    Some(format!("Bearer {token}"))
}

#[tokio::test(start_paused = true)]
async fn a_signer_that_knows_where_to_ask_asks_first_and_another_waits_for_the_challenge() {
    let (oauth, wants) = signer(true, &[Ok(100)]);
    assert_eq!(signed(&oauth).await.unwrap(), bearer_of("t1"));
    assert_eq!(*wants.lock().unwrap(), [Want::First]);

    let (oauth, wants) = signer(false, &[Ok(100)]);
    assert_eq!(signed(&oauth).await.unwrap(), None);
    assert!(refused(&oauth, None, 401, "Bearer x=y", 0).await.unwrap());
    assert_eq!(signed(&oauth).await.unwrap(), bearer_of("t1"));
    assert_eq!(
        *wants.lock().unwrap(),
        [Want::Challenged(Some("Bearer x=y".into()))]
    );
}

#[tokio::test(start_paused = true)]
async fn m36_a_token_is_renewed_in_time_by_one_request_however_many_wait() {
    let (oauth, wants) = signer(true, &[Ok(100), Ok(100)]);
    signed(&oauth).await.unwrap();
    tokio::time::advance(Duration::from_secs(69)).await;
    assert_eq!(signed(&oauth).await.unwrap(), bearer_of("t1"));
    tokio::time::advance(Duration::from_secs(1)).await;
    let all = futures::future::join_all((0..50).map(|_| signed(&oauth))).await;
    for one in all {
        assert_eq!(one.unwrap(), bearer_of("t2"));
    }
    assert_eq!(*wants.lock().unwrap(), [Want::First, Want::Renewed]);
}

#[tokio::test(start_paused = true)]
async fn m36_a_renewal_that_fails_costs_nothing_while_the_token_is_good_and_then_nothing_is_sent() {
    let (oauth, wants) = signer(true, &[Ok(100), Err("away"), Err("away"), Err("away"), Ok(100)]);
    signed(&oauth).await.unwrap();
    tokio::time::advance(Duration::from_secs(75)).await;
    assert_eq!(signed(&oauth).await.unwrap(), bearer_of("t1"));
    // Not with every request.
    assert_eq!(signed(&oauth).await.unwrap(), bearer_of("t1"));
    assert_eq!(wants.lock().unwrap().len(), 2);
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(signed(&oauth).await.unwrap(), bearer_of("t1"));
    assert_eq!(wants.lock().unwrap().len(), 3);
    // It is over: fail closed, and all who wait share one failure.
    tokio::time::advance(Duration::from_secs(30)).await;
    let all = futures::future::join_all((0..50).map(|_| signed(&oauth))).await;
    assert!(
        all.iter()
            .all(|one| one.as_ref().unwrap_err().to_string() == "away")
    );
    assert_eq!(wants.lock().unwrap().len(), 4);
    // The next one tries again.
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(signed(&oauth).await.unwrap(), bearer_of("t5"));
}

#[tokio::test(start_paused = true)]
async fn m36_one_refusal_one_token() {
    let (oauth, wants) = signer(true, &[Ok(100), Ok(100)]);
    signed(&oauth).await.unwrap();
    assert!(refused(&oauth, Some("t1"), 401, "Bearer", 0).await.unwrap());
    // A request that was under way with the old one goes out again with the new one.
    assert!(refused(&oauth, Some("t1"), 401, "Bearer", 0).await.unwrap());
    // A second 401 in a row is the server's last word, and so is anything that is not about rights.
    assert!(!refused(&oauth, Some("t2"), 401, "Bearer", 1).await.unwrap());
    assert!(!refused(&oauth, Some("t2"), 403, "Bearer", 0).await.unwrap());
    assert_eq!(wants.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn m36_steps_up_are_bounded_and_bring_what_was_not_asked_for() {
    let (oauth, wants) = signer(true, &[Ok(100); 9]);
    signed(&oauth).await.unwrap();
    let missing = |scope: &str| format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
    // It was asked for already.
    assert!(!refused(&oauth, Some("t1"), 403, &missing("a"), 0).await.unwrap());
    assert!(
        refused(&oauth, Some("t1"), 403, &missing("a b"), 0)
            .await
            .unwrap()
    );
    assert!(refused(&oauth, Some("t2"), 403, &missing("b"), 1).await.unwrap());
    assert!(
        !refused(&oauth, Some("t3"), 403, &missing("c"), STEP_UPS)
            .await
            .unwrap()
    );
    assert_eq!(wants.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_does_not_end_the_request_for_a_token() {
    let (oauth, wants) = signer(true, &[Ok(100)]);
    let short = Duration::from_millis(500);
    assert!(tokio::time::timeout(short, signed(&oauth)).await.is_err());
    assert_eq!(signed(&oauth).await.unwrap(), bearer_of("t1"));
    assert_eq!(wants.lock().unwrap().len(), 1);
}
