package lint

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// goFiles calls each with the Go files of the repository.
func goFiles(t *testing.T, each func(file string, f *ast.File)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err == nil {
			each(name, f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSecurityLimitsHaveTests: each limit on the page has a test in securityTests, but for those
// that it says are none; the page says all that is there; and the tests exist.
func TestSecurityLimitsHaveTests(t *testing.T) {
	exist := map[string]bool{}
	goFiles(t, func(file string, f *ast.File) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(file, "_test.go") {
				exist[fn.Name.Name] = true
			}
		}
	})
	page := regexp.MustCompile("\\]\\([^)]*\\)|[\\[`*]").ReplaceAllString(read(t, "docs/security.md"), "")
	text := strings.Join(strings.Fields(page), " ")
	for what, tests := range securityTests {
		if !strings.Contains(text, what) {
			t.Errorf("the page does not say %q", what)
		}
		for name := range strings.FieldsSeq(tests) {
			if !exist[name] {
				t.Errorf("%s: there is no %s", what, name)
			}
		}
	}
	_, limits, _ := strings.Cut(page, "\n## Limits\n")
	limits, _, _ = strings.Cut(limits, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| (.*?) \| (.*?) \|`).FindAllStringSubmatch(limits, -1)
	for _, row := range rows {
		if row[1] != "limit" && row[2] != "none" && securityTests[row[1]] == "" {
			t.Errorf("no test for %s", row[1])
		}
	}
	if len(rows) < 60 {
		t.Errorf("%d limits only", len(rows))
	}
}

// The numbers of the page are those of the code, and no bound of the code is
// missing from it.
func TestSecurityLimitsAreThoseOfTheCode(t *testing.T) {
	isBound := regexp.MustCompile(`^(max|Max|DefaultMax|defaultRecordMax$)`)
	ofThePlugin := regexp.MustCompile(`^(rewrite|proxy|resume|desk|queue|caddymodule|internal|tools)(/|$)`)
	ofPrograms := regexp.MustCompile(`/cmd(/|$)`)
	code, alias := map[string]int64{}, map[string]string{}
	goFiles(t, func(file string, f *ast.File) {
		if strings.HasSuffix(file, "_test.go") || !ofThePlugin.MatchString(path.Dir(file)) || ofPrograms.MatchString(path.Dir(file)) {
			return
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i >= len(v.Values) {
						continue
					}
					if other, ok := v.Values[i].(*ast.Ident); ok {
						alias[name.Name] = other.Name
					}
					if tv, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(v.Values[i])); err == nil && tv.Value != nil && tv.Value.Kind() == constant.Int {
						code[name.Name], _ = constant.Int64Val(tv.Value)
					}
				}
			}
		}
	})
	for name, other := range alias {
		if n, ok := code[other]; ok {
			code[name] = n
		}
	}
	units := map[string]int64{"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "MB": 1e6}
	page := map[string]bool{}
	for _, m := range regexp.MustCompile("(\\d+)(?: ([A-Za-z]+))?(?: [a-z]+)*(?: of them)? \\(`([A-Za-z0-9]+)`\\)").FindAllStringSubmatch(read(t, "docs/security.md"), -1) {
		page[m[3]] = true
		unit, ok := units[m[2]]
		if !ok {
			unit = 1 // a word, as in "256 places"
		}
		n, _ := strconv.ParseInt(m[1], 10, 64)
		if got, ok := code[m[3]]; !ok || got != n*unit {
			t.Errorf("%s is %d in the code (%v), %s %s on the page", m[3], got, ok, m[1], m[2])
		}
	}
	found := 0
	for name := range code {
		if isBound.MatchString(name) {
			found++
			if !page[name] {
				t.Errorf("%s is not on the page", name)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d bounds in the code only", found)
	}
}

// securityTests names the tests of each limit in the tables of docs/security.md, by its first
// column, and of what the text of the page promises.
var securityTests = map[string]string{
	// Promises.
	"A check in front of hermes runs before that":                "TestRecipeOrderOfAuthentication",
	"cannot become a frame, an error, an end or a tool call":     "TestTextForgesNothing TestNamesAndErrorsForgeNothing",
	"is stripped and starts no tool":                             "TestImitations",
	"Streams share only counters":                                "TestRandomSequences",
	"only to clients with the same credentials":                  "TestOthersGetNothing TestRevokedCredentialsGetNothing TestChecksBehindAreNotAskedAgain",
	"What it sees, keeps and never keeps":                        "TestNothingSaidIsKept TestStreamHasASpan TestRequestsAreLetGoOnceTheyAreAnswered",
	"in what upstream says about a failure or its state":         "TestSecretsInEveryPlaceAreRedacted TestSecretsOfAnswers TestSecretsInATextAreRedacted FuzzRedaction",
	"redacts nothing in the text of an answer":                   "TestSecretsInWhatIsSaidStay TestSecretsThatAProviderSaid TestWhereAProviderSaidIt",
	"Its own messages name no address":                           "TestMessagesOfOurOwnNameNoAddress",
	"follows no link in the place of a file":                     "TestPlantedLinksAreNotFollowed TestDirectoryThatIsAPlantedLinkIsNotFollowed",
	"keeps other headers with keys out of access logs":           "TestAccessLogOfKeysAndIDs",
	"takes time linear in its size":                              "TestRedactionCostsLinearTime TestStreamsCostLinearTime TestHostileBodiesCostLinearTime",
	"request_body { max_size":                                    "TestRequestsWithCaddysOwnDirectives",
	"only to a server that has shown that it is Hermes":          "TestStrangersGetNoKey TestChatRequest TestKeys TestOddAgents TestDoctorsExitStatus TestNothingThatOthersSayReachesAReportAsItCame",
	"caddy hermes-proxy without a host listens on loopback only": "TestProxyCommandListens",
	"hermes-demo always does":                                    "TestDemoRefusesBadFlags",
	"Caddy refuses foreign hosts and origins there":              "TestAdminEndpointIsGuarded",
	"hides every segment that may be such an id or a key":        "TestPublicListNamesNothingThatHermesTakes TestImageCaddyfile",
	"Options has the timeouts":                                   "TestErrorsSayWhetherTheAgentMayBeRunning TestTimelines TestStreamsBeyondDrainTimeoutGetAnErrorFinish",

	// Limits.
	"a frame, a line, a comment, a whole answer or failure: max_frame":          "TestFrameOfMaxFrameIsExaminedAndALargerOneIsNot TestMemoryIsBounded TestWhatIsHeld TestAnswerThatGrowsTooLarge TestFailuresThatPass",
	"reasoning kept by reasoning drop until a tag closes it":                    "TestWhatIsHeld TestDroppedReasoningIsNoLostAnswer",
	"text held back for a marker":                                               "TestHeldLineIsBoundedTo4KiB TestWhatIsHeld",
	"text held back for a tag":                                                  "TestWhatIsHeld",
	"depth of JSON":                                                             "TestDeepNestingPassesByteForByte TestWhatIsHealed",
	"open tools":                                                                "TestOpenToolsAreBounded TestOpenToolsHoldAtMostMaxOpenBytes TestNoFrameGrowsBeyondItsBound",
	"a card (cards): id, name":                                                  "TestEveryEndOfACard TestNamesOfCards",
	"details of a tool, of a stream (tool_details)":                             "TestDetailsOfAStreamAreBounded TestDetailsAreJSONForEveryClient",
	"asking Hermes: an answer, a row, the rest":                                 "TestAnswersThatAreNotHermes TestWhichCallAToolIs TestDetailsOfAHugeAnswer",
	"what is kept of the answer":                                                "TestWhatIsKeptOfAnAnswer TestSpaceOfArgumentsIsNotKept",
	"rows asked for, id of a session":                                           "TestDetailsAreAskedForInTheClientsName TestSessionsThatAreNotAskedFor",
	"answers in a row without a call, failures":                                 "TestOutcomesOfQuestions TestUpstreamsThatAreNotAsked",
	"upstreams that are not asked":                                              "TestUpstreamsThatAreNotAsked",
	"a label by which a call is looked for":                                     "TestLabelsOfCallsAreBounded",
	"depth of arguments, a number":                                              "TestDetailsAreJSONForEveryClient",
	"depth of a failed result whose values a card shows in lines":               "TestNoFrameGrowsBeyondItsBound",
	"bytes written for one frame":                                               "TestNoFrameGrowsBeyondItsBound TestSplitKeepsItsBound",
	"memory for one frame":                                                      "TestNoFrameGrowsBeyondItsBound",
	"approvals that a stream remembers":                                         "TestRequestsThatAreRemembered TestRequestsThatNobodyIsAskedFor TestChoicesThatAreOffered",
	"what a status line, card or approval shows of a text":                      "TestWhatUsersRead TestLabelsOfCards TestCommandsInTheText",
	"a possible reply to an approval":                                           "TestRepliesInRequests",
	"stretches of reasoning in one chunk":                                       "TestPartsOfOneChunkAreBounded",
	"tools that one chunk starts (imitations trust)":                            "TestPartsOfOneChunkAreBounded",
	"nesting of a request whose user is named (identity)":                       "TestPromptLineIsInWhateverHermesReads",
	"ids of tools remembered":                                                   "TestIDsOfToolsAreRemembered TestOneIDForManyTools TestWhatIsHeld",
	"choices of a stream, of a whole answer":                                    "TestWhatIsRead TestNoAnswerTakesMoreThanItsBound",
	"id and model in the sidecar's frames":                                      "TestEnvelopeIsWhatChunksHaveSaidLast",
	"template of a frame (all but its text)":                                    "TestWhatIsHeld",
	"usage kept":                                                                "TestWhatIsRememberedToTheByte",
	"message of an error kept":                                                  "TestErrorEventOfAResponse TestFailedAnswers TestLongErrorIsNotRepeated",
	"bytes that redaction adds to a value":                                      "TestRedactionIsBounded",
	"edits of a frame":                                                          "TestManySecretsOfAValue TestRedactionIsBounded",
	"open tools of another stream":                                              "TestOpenToolsOfASessionAreBounded TestNoFrameGrowsBeyondItsBound",
	"levels of an event searched for text":                                      "TestNoFrameGrowsBeyondItsBound TestNoAnswerTakesMoreThanItsBound",
	"response remembered (/v1/responses)":                                       "TestResponseRememberedIsBounded TestResponseFailed",
	"examined of a frame over max_frame: beginning; in chats, end":              "TestLargeEventOfAnotherStream TestBeginningThatEndsAnywhere",
	"finish reason found in an unexamined frame":                                "TestFinishInALargeFrame",
	"label that is read to name a tool":                                         "TestToolComesFromEmojiAndLabel",
	"length of an emoji":                                                        "TestToolsThatNoMarkerCanHaveAreRefused TestToolComesFromEmojiAndLabel",
	"buffers kept between frames":                                               "TestWhatIsHeld",
	"compressed answers":                                                        "TestAnswersThatAreNoStreamPassByteForByte TestMemoryIsBounded",
	"upstream's header":                                                         "TestEndlessHeadersOfUpstreamAreAnError",
	"names in logs and lists; upstream's header there, in recordings and spans": "TestListIsBounded TestEndIsLoggedWithWhatIsKnown TestHeadersOfUpstreamStayShort",
	"texts of errors in logs, and for Caddy":                                    "TestHeadersOfUpstreamStayShort TestErrorsThatArePassedOnAreShort",
	"labels of metrics":                                                         "TestLabelsAreBounded",
	"ended streams listed":                                                      "TestTheLastHundredAreKept",
	"log lines for requests without a place, for approvals of a handler":        "TestRefusalsAreLogged TestApprovalsAreLoggedOnceASecond",
	"open streams, and waiting requests, in the list of hermes_streams":         "TestPublicListOfThoseWhoWaitIsBounded TestPublicListIsBounded",
	"attempts to find the id of a completion":                                   "TestIDIsNotLookedForForEver",
	"upstreams and models remembered":                                           "TestUsageIsBounded",
	"their file in storage":                                                     "TestUsageFileThatIsNotOurs TestUsageIsOneSmallFile",
	"answers without usage that count as crashes, of ten":                       "TestUsageIsForgottenAfterThreeAnswersWithoutIt",
	"lookups in storage at once":                                                "TestUsageStorageThatHangsHoldsUpNothingTwice",
	"recordings":                                                                "TestRecordingsAreBounded TestThereAreAtMostMaxRecordings TestOpenRecordingsHaveTheirRoom",
	"room that streams share between writes, each":                              "TestRoomOfALargeReadIsNotKept",
	"bytes kept until a stream is known to be recorded":                         "TestStreamsAreRecorded",
	"a request, max_request":                                                    "TestMaxRequest TestARequestTakesTwiceItsSizeAtMost TestMaxRequestOfHermesBoundsBoth TestHistoriesThatPassUntouched",
	"memory for a request":                                                      "TestMemoryIsNotAllocatedForPromises TestHealingTakesBoundedMemory TestARequestTakesTwiceItsSizeAtMost TestABodyTakesItsSize",
	"memory for a body that is announced":                                       "TestMemoryIsNotAllocatedForPromises",
	"an event of a response read for its number":                                "TestResponseWithLargeEvents",
	"where a response's id is looked for":                                       "TestResponseWithAnotherBeginning",
	"tool calls of a message that may be cards":                                 "TestCardsLeaveHistories",
	"header":                                                   "TestLongRequestHeadersAreRefused",
	"a client that sends slowly":                               "TestRequestsThatAreNotSentInGoodOrder",
	"a client that does not read":                              "TestClientThatDoesNotReadIsCut TestShutdownWithAClientThatDoesNotRead",
	"sizes in the configuration":                               "TestOptionsRefusedInJSON",
	"sizes of hermes_resume":                                   "TestAdapt TestResumeValuesThatAreRefused",
	"a kept stream, max_stream":                                "TestSlowReaderHoldsNobodyUp TestMaxStreamCountsBytes TestLargeEventsAreBounded",
	"all kept streams, max_memory":                             "TestMaxMemoryBoundsAllLogs TestHeldRunGoesForWantOfMemory",
	"the header of a kept stream":                              "TestHeadersTakeWhatIsCounted TestMaxMemoryBoundsStreams",
	"memory of a client that reads a kept stream":              "TestNothingIsCopiedForAReader TestPromptReadersAreNeverCutOff TestSlowReaderHoldsNobodyUp",
	"events that wait to be written to Redis (storage redis)":  "TestUpstreamWaitsForRedis TestRedisThatTakesNothing",
	"events kept to be written to Redis again":                 "TestRedisLosesALongLog TestRedisLosesAHugeEvent",
	"a piece of a stream in Redis":                             "TestPiecesAreBounded",
	"a stream in Redis":                                        "TestMemoryOfRedisIsBounded",
	"an event of a distant site without its number":            "TestMemoryOfHeldEvents",
	"connections of a replica to a node of Redis":              "TestConnectionsAreBounded",
	"a reply at Redis' address":                                "TestHeapOfReplies TestBrokenReplies TestBrokenSentinels TestBrokenNodes FuzzReplies",
	"the header or request of a stream in Redis":               "TestLargeRecords",
	"how long a stream stays in Redis":                         "TestNothingStaysForEver",
	"answers that wait for a reply, without a client":          "TestRunsThatAwaitAClientHaveRoomOfTheirOwn TestHeldAnswersTakeNoMore",
	"streams without a client, max_detached":                   "TestRunsThatAwaitAClientHaveRoomOfTheirOwn TestRunsEndWhenNobodyComesBack",
	"waiting requests (hermes_queue): waiting":                 "TestRandomSequences TestNoPlace TestThousandsWait TestLargeBodiesWait",
	"places of a site's clients: runs":                         "TestFairness TestRandomSequences",
	"what a waiting client is told":                            "TestRandomSequences TestWaitingStream",
	"an error answer to a request that has waited":             "TestWaitedAnswersThatAreNoStreams",
	"origins that Hermes allows, remembered":                   "TestOriginsAreBounded",
	"a 429 that may send a request back into the line":         "TestOtherRefusals TestUpstreamRefuses",
	"runs of /v1/runs that hold places":                        "TestRoutesOfRuns TestRunsAreAskedFor TestUpstreamThatDoesNotTell TestRandomRuns",
	"upstream's answer to an approval, and about a run":        "TestReportIsBounded TestAnswerEndsWithItsTime",
	"attempts to reach the upstream that asks":                 "TestAnotherUpstreamIsTriedAgain",
	"the first chunk of a rest, before a sentence":             "TestLateRepliesSaySo",
	"an answer to a GET request":                               "TestAnswersToProbesAreBounded",
	"the messages of a session (--ask)":                        "TestDetails",
	"the HTTP header of an answer, or in front of a recording": "TestWhyNothingAnswers TestRecordingsAreNotHeld",
	"the answer to the chat request (--ask)":                   "TestAnswersAreReadUpToABound TestAnswersThatAreNoGoodStream",
	"a quotation of the agent in a line":                       "TestWhatOthersSayIsShort",
	"different repairs in a line":                              "TestManyRepairsAreCounted TestRecordingsAreNotHeld",
	"a recording":                                              "TestEndlessRecordingsEnd TestRecordingsAreNotHeld",
	"the file beside a recording":                              "TestMeta",
	"a key, --key-file":                                        "TestDoctorExaminesNothing",

	"records in a request (memory), as JSON":             "TestRecordsShrink TestToolsOfAnAnswerAreBounded FuzzRecord TestRandomHistories",
	"tools remembered while an answer is streamed":       "TestToolsOfAnAnswerAreBounded TestRememberedToolsTakeBoundedMemory",
	"answers whose tools are remembered (memory)":        "TestMemoryTakesNoMoreThanItsBound TestLikeAnswers",
	"a call's arguments and output read for a record":    "TestRecallingTakesBoundedMemory",
	"messages searched for the last question and answer": "FuzzRecall",

	"an answer to POST /v1/runs whose events are kept":        "TestAnswersThatBeginNoRun",
	"approvals that wait (hermes_approvals)":                  "TestTicketsAreBounded TestAThousandTickets TestMemoryOfTickets",
	"what an approval keeps of its request":                   "TestLongCommandsCanOnlyBeDenied TestQuestionsWithoutIdsHaveNoTicket TestMemoryOfTickets",
	"marks on a letter of a command on an approval's page":    "TestHiddenCharactersAreSeen FuzzVisible",
	"replicas that are asked for a link (approvals replicas)": "TestAsksAreBounded TestSlowReplicas",
	"what replicas ask and answer":                            "TestNobodyElseAsks TestWhatIsNoReplica",
	"requests of replicas about a link that are answered":     "TestALinkTakesNoOthersRoom TestNobodyElseAsks",
	"log lines about replicas":                                "TestAsksAreBounded",
	"wrong codes in replies to an approval":                   "TestRandomSequences",
	"the form on an approval's page":                          "TestWhatIsNoAnswer",
	"the answer of its login (login)":                         "TestLogin TestSlowLogin",
	"runs of /v1/runs read at a time":                         "TestManyRuns",
}
