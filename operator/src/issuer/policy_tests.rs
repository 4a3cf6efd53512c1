//! Every refusal and both grants, each from facts that differ in one thing from good ones.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::super::facts::{Account, Found, Pod, PodClaim, Reference};
use super::*;

const DOMAIN: &str = "k3.agentd.internal";

fn owner(api_version: &str, kind: &str, name: &str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

fn found(name: &str, controller: Option<OwnerReference>) -> Found {
    Found {
        uid: format!("uid-{name}"),
        terminating: false,
        controller,
    }
}

fn link(kind: Kind, name: &str, controller: Option<OwnerReference>) -> Link {
    let reference = Reference {
        kind,
        name: name.to_owned(),
        uid: format!("uid-{name}"),
    };
    Link {
        reference,
        found: Some(found(name, controller)),
    }
}

fn token(service_account: &str, pod: Option<&str>) -> Token {
    Token {
        namespace: "support".to_owned(),
        service_account: service_account.to_owned(),
        service_account_uid: format!("uid-{service_account}"),
        pod: pod.map(|name| PodClaim {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
        }),
    }
}

fn account(name: &str, labelled: bool) -> Option<Account> {
    Some(Account {
        uid: format!("uid-{name}"),
        labelled,
    })
}

fn triage() -> User {
    User {
        kind: Kind::Agent,
        name: "triage".to_owned(),
    }
}

/// The pod of Agent `triage`, made through Deployment and ReplicaSet.
fn workload_facts() -> Facts {
    Facts {
        token: token("triage-agent", Some("triage-agent-1-x")),
        account: account("triage-agent", false),
        pod: Some(Pod {
            found: found(
                "triage-agent-1-x",
                Some(owner("apps/v1", "ReplicaSet", "triage-agent-1")),
            ),
            service_account: "triage-agent".to_owned(),
        }),
        chain: vec![
            link(
                Kind::ReplicaSet,
                "triage-agent-1",
                Some(owner("apps/v1", "Deployment", "triage-agent")),
            ),
            link(
                Kind::Deployment,
                "triage-agent",
                Some(owner("agentd.io/v1alpha1", "Agent", "triage")),
            ),
            link(Kind::Agent, "triage", None),
        ],
        owner_account: Some("triage-agent".to_owned()),
        service: Some(Service {
            name: "triage-agent".to_owned(),
            controller: Some("uid-triage".to_owned()),
        }),
        users: vec![triage()],
    }
}

/// A labelled ServiceAccount of a person, with a token that names no pod.
fn caller_facts() -> Facts {
    Facts {
        token: token("alice", None),
        account: account("alice", true),
        pod: None,
        chain: vec![],
        owner_account: None,
        service: None,
        users: vec![],
    }
}

fn decided(facts: &Facts) -> Decision {
    decide(facts, &DOMAIN.parse().unwrap(), "cluster.local")
}

#[track_caller]
fn refused(facts: &Facts, reason: &str, words: &str) {
    let refusal = decided(facts).outcome.unwrap_err();
    assert_eq!(refusal.reason, reason, "{refusal}");
    assert!(
        refusal.message.contains(words),
        "`{refusal}` does not say `{words}`"
    );
}

#[test]
fn a_pod_of_an_agent_gets_its_id_and_the_names_of_its_service() {
    let grant = decided(&workload_facts()).outcome.unwrap();
    let expected = Grant {
        case: Case::Workload,
        id: "spiffe://k3.agentd.internal/ns/support/sa/triage-agent"
            .parse()
            .unwrap(),
        dns_names: vec![
            "triage-agent.support.svc".to_owned(),
            "triage-agent.support.svc.cluster.local".to_owned(),
        ],
    };
    assert_eq!(grant, expected);
}

#[test]
fn jobs_and_cron_jobs_of_agents_are_workloads_and_so_are_mcp_servers() {
    let mut job = workload_facts();
    job.pod.as_mut().unwrap().found.controller = Some(owner("batch/v1", "Job", "j"));
    job.chain = vec![
        link(
            Kind::Job,
            "j",
            Some(owner("agentd.io/v1alpha1", "Agent", "triage")),
        ),
        link(Kind::Agent, "triage", None),
    ];
    job.service = None;
    let grant = decided(&job).outcome.unwrap();
    assert_eq!((grant.case, grant.dns_names), (Case::Workload, vec![]));

    let mut cron = job;
    cron.chain = vec![
        link(Kind::Job, "j", Some(owner("batch/v1", "CronJob", "c"))),
        link(
            Kind::CronJob,
            "c",
            Some(owner("agentd.io/v1alpha1", "Agent", "triage")),
        ),
        link(Kind::Agent, "triage", None),
    ];
    assert!(decided(&cron).outcome.is_ok());

    let mut server = workload_facts();
    server.token = token("fs-mcp", Some("fs-mcp-1-x"));
    server.account = account("fs-mcp", false);
    server.pod = Some(Pod {
        found: found("fs-mcp-1-x", Some(owner("apps/v1", "ReplicaSet", "fs-mcp-1"))),
        service_account: "fs-mcp".to_owned(),
    });
    server.chain = vec![
        link(
            Kind::ReplicaSet,
            "fs-mcp-1",
            Some(owner("apps/v1", "Deployment", "fs-mcp")),
        ),
        link(
            Kind::Deployment,
            "fs-mcp",
            Some(owner("agentd.io/v1alpha1", "McpServer", "fs")),
        ),
        link(Kind::McpServer, "fs", None),
    ];
    server.owner_account = Some("fs-mcp".to_owned());
    server.service = Some(Service {
        name: "fs-mcp".to_owned(),
        controller: Some("uid-fs".to_owned()),
    });
    let grant = decided(&server).outcome.unwrap();
    assert_eq!(
        grant.dns_names.first().map(String::as_str),
        Some("fs-mcp.support.svc")
    );
}

#[test]
fn a_service_that_somebody_else_controls_gives_no_name() {
    for controller in [None, Some("uid-other".to_owned())] {
        let mut facts = workload_facts();
        facts.service = Some(Service {
            name: "triage-agent".to_owned(),
            controller,
        });
        assert_eq!(decided(&facts).outcome.unwrap().dns_names, Vec::<String>::new());
    }
}

#[test]
fn a_labelled_account_that_nothing_uses_is_a_caller_without_names() {
    let expected = Grant {
        case: Case::Caller,
        id: "spiffe://k3.agentd.internal/ns/support/sa/alice".parse().unwrap(),
        dns_names: vec![],
    };
    assert_eq!(
        decided(&caller_facts()),
        Decision {
            outcome: Ok(expected.clone()),
            label_ignored: false
        }
    );

    // A workload of another kind: a live pod of the user's own.
    let mut job = caller_facts();
    job.token = token("alice", Some("send-x"));
    job.pod = Some(Pod {
        found: found("send-x", Some(owner("batch/v1", "Job", "send"))),
        service_account: "alice".to_owned(),
    });
    job.chain = vec![link(Kind::Job, "send", None)];
    assert_eq!(decided(&job).outcome, Ok(expected));
}

#[test]
fn an_unlabelled_account_is_refused_with_the_command_that_labels_it() {
    let mut facts = caller_facts();
    facts.account = account("alice", false);
    refused(
        &facts,
        reason::CALLER_NOT_LABELLED,
        "kubectl label serviceaccount alice -n support agentd.io/caller=true",
    );
}

#[test]
fn a_labelled_account_that_an_agent_uses_is_no_caller_and_that_is_said() {
    let mut facts = caller_facts();
    facts.users = vec![triage()];
    refused(&facts, reason::POD_CLAIMS_MISSING, "Agent triage");
    assert!(decided(&facts).label_ignored);

    let mut own_pod = workload_facts();
    own_pod.account = account("triage-agent", true);
    let decision = decided(&own_pod);
    assert_eq!(decision.outcome.unwrap().case, Case::Workload);
    assert!(decision.label_ignored);
}

#[test]
fn a_token_without_pod_claims_for_an_agents_account_is_refused() {
    let mut facts = workload_facts();
    facts.token.pod = None;
    facts.pod = None;
    facts.chain = vec![];
    refused(&facts, reason::POD_CLAIMS_MISSING, "only its own pods");
}

#[test]
fn a_foreign_pod_that_names_an_agents_account_is_refused() {
    // A bare pod, one of a Deployment of the user's own, one below a StatefulSet.
    let mut bare = workload_facts();
    bare.pod.as_mut().unwrap().found.controller = None;
    bare.chain = vec![];
    refused(
        &bare,
        reason::FOREIGN_POD,
        "is controlled by no Agent or McpServer",
    );

    let mut deployment = workload_facts();
    deployment.chain.truncate(1);
    deployment
        .chain
        .push(link(Kind::Deployment, "triage-agent", None));
    refused(
        &deployment,
        reason::FOREIGN_POD,
        "Deployment triage-agent is controlled by no Agent",
    );

    let mut stateful = workload_facts();
    stateful.pod.as_mut().unwrap().found.controller = Some(owner("apps/v1", "StatefulSet", "s"));
    stateful.chain = vec![];
    refused(&stateful, reason::FOREIGN_POD, "is controlled by no");
}

#[test]
fn a_chain_counts_only_by_uid_and_kind_at_each_step() {
    for step in 0..3 {
        let mut reused = workload_facts();
        reused.chain[step].found.as_mut().unwrap().uid = "uid-of-a-later-one".to_owned();
        refused(&reused, reason::FOREIGN_POD, "no longer exists");

        let mut gone = workload_facts();
        gone.chain[step].found = None;
        gone.chain.truncate(step + 1);
        refused(&gone, reason::FOREIGN_POD, "no longer exists");

        let mut ending = workload_facts();
        ending.chain[step].found.as_mut().unwrap().terminating = true;
        refused(&ending, reason::FOREIGN_POD, "is being deleted");

        // A chain that skips a step, as a faulty look-up could make one.
        let mut skipped = workload_facts();
        skipped.chain.remove(step);
        assert!(decided(&skipped).outcome.is_err(), "without step {step}");
    }
    // A pod that claims an Agent as its controller directly, or an Agent of another group.
    for (api_version, kind, end) in [
        ("agentd.io/v1alpha1", "Agent", Kind::Agent),
        ("evil.io/v1", "Agent", Kind::Agent),
        ("agentd.io/v1alpha1", "McpServer", Kind::McpServer),
        ("v1", "Agent", Kind::Agent),
    ] {
        let mut direct = workload_facts();
        direct.pod.as_mut().unwrap().found.controller = Some(owner(api_version, kind, "triage"));
        direct.chain = vec![link(end, "triage", None)];
        refused(&direct, reason::FOREIGN_POD, "is controlled by no");
    }
}

#[test]
fn the_end_of_the_chain_must_use_this_very_account() {
    for account in [Some("other".to_owned()), None] {
        let mut facts = workload_facts();
        facts.owner_account = account;
        refused(&facts, reason::FOREIGN_POD, "does not use this ServiceAccount");
    }
    // And when nothing uses the account, such a pod is at most an unlabelled caller.
    let mut facts = workload_facts();
    facts.owner_account = Some("other".to_owned());
    facts.users = vec![];
    refused(&facts, reason::CALLER_NOT_LABELLED, "is not a caller");
}

#[test]
fn a_token_of_a_deleted_pod_is_refused_in_both_cases() {
    let mut facts = workload_facts();
    facts.pod = None;
    facts.chain = vec![];
    refused(&facts, reason::POD_GONE, "Pod support/triage-agent-1-x");

    let mut reused = workload_facts();
    reused.pod.as_mut().unwrap().found.uid = "uid-of-a-later-one".to_owned();
    refused(&reused, reason::POD_GONE, "no longer exists");

    let mut ending = workload_facts();
    ending.pod.as_mut().unwrap().found.terminating = true;
    refused(&ending, reason::POD_TERMINATING, "is ending");

    let mut caller = caller_facts();
    caller.token = token("alice", Some("send-x"));
    refused(&caller, reason::POD_GONE, "Pod support/send-x");
}

#[test]
fn a_pod_that_runs_under_another_account_is_refused() {
    let mut facts = workload_facts();
    facts.pod.as_mut().unwrap().service_account = "other".to_owned();
    refused(&facts, reason::FOREIGN_POD, "runs under `other`");
}

#[test]
fn a_token_of_a_deleted_account_is_refused_also_when_the_name_is_taken_again() {
    for account in [None, account("a-later-one", true)] {
        for mut facts in [workload_facts(), caller_facts()] {
            facts.account = account.clone();
            refused(
                &facts,
                reason::SERVICE_ACCOUNT_GONE,
                "was deleted since this token was made",
            );
        }
    }
}
