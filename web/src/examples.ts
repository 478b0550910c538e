/** The example operations, one a tab. The first is the page this server is made for. */

interface Example {
  readonly query: string;
  readonly variables?: string;
}

const rows = [0, 10, 20].map((start) => Array.from({ length: 10 }, (_, index) => `"${start + index + 1}"`).join(", "));
const thirty = `{\n  "ids": [\n    ${rows.join(",\n    ")}\n  ]\n}`;

export const examples: readonly Example[] = [
  {
    query: `# A browse page of thirty games: how many of the
# viewer's friends played each, how many play it now.
# Under Headers, X-Headcount-Cost asks for the cost.
query Page($ids: [ID!]!) {
  games(ids: $ids) {
    id
    name
    friendsPlayed
    friendsPlayedLabel
    livePlayers
    livePlayersLabel
  }
}
`,
    variables: thirty,
  },
  {
    query: `# Live counts as they move: all at once, then what
# changed.
subscription LivePlayers($ids: [ID!]!) {
  livePlayers(gameIds: $ids) {
    gameId
    livePlayers
    livePeople
    asOf
  }
}
`,
    variables: thirty,
  },
  {
    query: `# Who asks, whom they know, what they played last.
query Viewer {
  viewer {
    user {
      id
      name
    }
    friends(first: 20) {
      totalCount
      nodes {
        id
        name
      }
    }
    games(first: 10) {
      nodes {
        id
        name
        friendsPlayed
      }
    }
  }
}
`,
  },
  {
    query: `# The viewer plays a game. If it is their first time,
# each of their friends sees one friend more under it:
# choose one of them above and ask for the page.
mutation RecordPlay($gameId: ID!) {
  recordPlay(gameId: $gameId) {
    recorded
    first
    game {
      id
      name
      friendsPlayed
      livePlayers
    }
  }
}
`,
    variables: JSON.stringify({ gameId: "7" }, null, 2),
  },
  {
    query: `# A game client says "still playing" while it runs.
mutation Heartbeat($sessionId: ID!, $gameId: ID!) {
  heartbeat(sessionId: $sessionId, gameId: $gameId) {
    live
    expiresAt
    nextHeartbeatInSeconds
    game {
      id
      name
      livePlayers
    }
  }
}
`,
    variables: JSON.stringify({ sessionId: "graphiql", gameId: "7" }, null, 2),
  },
];
