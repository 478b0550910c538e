import java.nio.file.Path;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;

/**
 * Neo4j Community with its Bolt connector, from jars alone: java -cp 'lib/*' Neo4jServer.java HOME. Settings are read from
 * HOME/neo4j.conf. Prints "ready" once it answers, and ends when its standard input does: it outlives nobody.
 */
class Neo4jServer {
    public static void main(String[] args) throws Exception {
        var home = Path.of(args[0]).toAbsolutePath();
        var dbms = new DatabaseManagementServiceBuilder(home)
                .loadPropertiesFromFile(home.resolve("neo4j.conf"))
                .build();
        Runtime.getRuntime().addShutdownHook(new Thread(dbms::shutdown));
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
